"""Specs: frozen, read from JSON and written to it, refused with a sentence; no torch."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headway.config import SPECS, Additive, Channel, Linear, Local, Softmax, Spatial, Spec, nearest, read_spec
from headway.ops.attention import MECHANISMS

side = st.integers(1, 9)
pair = st.tuples(side, side)
extent = st.one_of(side, pair)
specs = st.one_of(
    st.just(Softmax()),
    st.just(Channel()),
    st.just(Additive()),
    st.builds(Linear, feature=st.sampled_from(["elu", "relu", "exp"]), chunk=side),
    st.builds(Local, window=side, dilation=side, selected=st.lists(side).map(tuple), global_tokens=st.booleans()),
    st.builds(Local, window=extent, dilation=extent, grid=pair),
    st.builds(Spatial, grid=pair, window=st.one_of(st.none(), extent)),
)  # fmt: skip


@given(specs)
def test_json_and_back(spec: Spec) -> None:
    written = spec.model_dump_json()
    assert read_spec(json.loads(written)) == spec
    assert type(read_spec(json.loads(written))) is type(spec)
    assert read_spec(spec) == spec


@given(specs)
def test_name_and_options_and_back(spec: Spec) -> None:
    options = {name: value for name, value in spec.model_dump().items() if name != "kind"}
    assert read_spec(spec.kind, **options) == spec


def test_every_mechanism_has_its_spec() -> None:
    """Beside its record, or in SPECS where configurations need it before torch."""
    assert SPECS.items() <= {name: record.spec for name, record in MECHANISMS.items()}.items()
    for name, record in MECHANISMS.items():
        assert record.spec.model_fields["kind"].default == record.name == name


def test_options_change_a_copy() -> None:
    spec = Local(window=3)
    wider = read_spec(spec, window=5)
    assert (spec, wider) == (Local(window=3), Local(window=5))
    with pytest.raises(ValidationError, match="frozen"):
        spec.window = 7  # type: ignore[misc]


def test_specs_are_keys() -> None:
    assert len({Local(window=3), Local(window=3), Local(window=5), Linear()}) == 3


def test_a_feature_of_ones_own_is_kept() -> None:
    def feature(x: Any) -> Any:
        return x

    assert read_spec("linear", feature=feature).feature is feature
    assert read_spec(Linear(feature=feature), chunk=7) == Linear(feature=feature, chunk=7)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("sofmax", {}, ["'sofmax'", "did you mean softmax?", "softmax, linear, local, spatial, channel, additive"]),
        ("Spatial", {}, ["did you mean spatial?"]),
        ("qqq", {}, ["no mechanism 'qqq'"]),
        ({"window": 3}, {}, ["{'window': 3} names no mechanism", "kind"]),
        ({"kind": "lineal"}, {}, ["did you mean linear?"]),
        ("local", {}, ["local needs the option 'window'"]),
        ("local", {"window": 3, "dialtion": 2}, ["no option 'dialtion'", "did you mean dilation?", "global_tokens"]),
        ("softmax", {"chunk": 2}, ["softmax has no option 'chunk'", "none"]),
        ("local", {"window": 0}, ["local cannot take window=0"]),
        ("local", {"window": (2, 3, 4)}, ["window=(2, 3, 4)"]),
        ("local", {"window": 2.5}, ["window=2.5"]),
        ("local", {"window": 2, "grid": (0, 4)}, ["grid", "0"]),
        ("spatial", {}, ["spatial needs the option 'grid'"]),
        ("spatial", {"grid": 5}, ["grid=5"]),
        ("linear", {"chunk": -1}, ["chunk=-1"]),
        (Linear(), {"chunks": 2}, ["no option 'chunks'", "did you mean chunk?"]),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence(given: Any, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        read_spec(given, **options)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_the_nearest_name() -> None:
    assert nearest("ell", ["elu", "relu"]) == " (did you mean elu?)"
    assert nearest("zzz", ["elu", "relu"]) == ""


def test_config_needs_no_torch() -> None:
    check = "import sys, headway.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
