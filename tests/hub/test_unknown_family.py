"""An architecture that headway lacks: what it is, and another family only where that one would load it."""

import json
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from tests.fresh import fresh

SMALL = dict(vocabulary=31, width=12, layers=2, heads=3, length=16)


def saved(place: Path, config: Any, **changes: Any) -> Path:
    headway.save(fresh(config), place)
    said = json.loads((place / "config.json").read_text()) | changes
    (place / "config.json").write_text(json.dumps(said))
    (place / "hashes.json").unlink(missing_ok=True)
    return place


def refused(place: Path) -> str:
    with pytest.raises(ValueError) as found:
        headway.load(place)
    with pytest.raises(ValueError) as described:
        headway.price(str(place), length=4)
    assert str(found.value) == str(described.value)
    return str(found.value).partition("; it reads ")[0]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (dict(model_type="mixtral", architectures=["MixtralForCausalLM"], num_local_experts=8),
         "'mixtral' (MixtralForCausalLM, a mixture of experts)"),
        (dict(model_type="mamba", architectures=["MambaForCausalLM"], state_size=16),
         "'mamba' (MambaForCausalLM, a state-space model)"),
        (dict(model_type="gemma3", architectures=None, vision_config={"a": 1}),
         "'gemma3' (a model of pictures and text)"),
        (dict(model_type="whisper", architectures=None, num_mel_bins=80), "'whisper' (a model of sound)"),
        (dict(model_type="gptj", architectures=["GPTJForCausalLM"]), "'gptj' (GPTJForCausalLM)"),
        (dict(model_type="x" * 1000, architectures="none"), f"'{'x' * 100}'"),
    ],
)  # fmt: skip
def test_what_it_is(said: dict[str, Any], what: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert refused(tmp_path) == f"headway knows no architecture {what}"


def test_a_family_that_would_load_it_is_named(tmp_path: Path) -> None:
    place = saved(tmp_path / "a", llama(hidden=17, **SMALL), model_type="llama4u", architectures=["OurLlama"])
    near = "did you mean llama, which would load it?"
    assert refused(place) == f"headway knows no architecture 'llama4u' (OurLlama; {near})"
    saved(place.parent / "b", gpt2(**SMALL), model_type="gpt-2", architectures=None)
    assert "did you mean gpt2" in refused(tmp_path / "b")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("mixtral", {"num_local_experts": 8}),  # the nearest name is mistral
        ("llama5", {"logit_scale": 0.5}),
        ("gemma", {}),  # lacks two norms of Gemma 2
        ("olmo3", {}),  # lacks the norms of OLMo 2
        ("qwen2_moe", {}),  # lacks the biases of Qwen2
    ],
)
def test_a_family_that_would_not_is_not(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    place = saved(tmp_path / "a", llama(hidden=17, **SMALL), model_type=kind, **changes)
    assert "did you mean" not in refused(place)
