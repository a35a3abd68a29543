"""A mechanism of a user's own, in one file: in a layer, a configuration, training, on disk, in cost, audit and look."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import headway as hw
from headway.cli import main
from headway.config import read_spec
from tests.processes import Processes

SOURCE = '''
"""Cosine attention: softmax of temperature · cos(q, k)."""

from dataclasses import replace

import torch.nn.functional as F

import headway as hw
from headway.config import Softmax
from headway.ops.attention import CacheNeed, softmax
from headway.ops.nonfinite_rows import by_rows


class Cosine(hw.Spec):
    """Its options."""

    kind: str = "cosine_attention:RECORD"
    temperature: float = 10.0


def unit(call):
    """The same call of softmax attention, with q and k of length 1."""
    q, k = (by_rows(lambda rows: F.normalize(rows, dim=-1), x) for x in (call.q, call.k))
    return replace(call, q=q, k=k, scale=call.spec.temperature, spec=Softmax())


RECORD = hw.Mechanism(
    "cosine",
    Cosine,
    reference=lambda call: softmax.reference(unit(call)),
    attend=lambda call: softmax.attend(unit(call)),
    weights=lambda call, rows, heads: softmax.weights(unit(call), rows, heads),
    operation=lambda spec, workload: softmax.operation(Softmax(), workload),
    laws=frozenset({"causal", "padding", "batch"}),
    pattern=lambda spec: None,
    cache=lambda spec: CacheNeed(),
    masks="any",
    modifiers=frozenset({"bias", "softcap"}),
)
'''
NAME = "cosine_attention:RECORD"
SMALL = {"layers": 2, "width": 12, "heads": 3, "vocabulary": 31, "length": 17}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the file, where one works."""
    made = tmp_path_factory.mktemp("own")
    (made / "cosine_attention.py").write_text(SOURCE)
    (made / "book.txt").write_text("the tide comes in, the tide goes out.\n" * 90)
    patch = pytest.MonkeyPatch()
    patch.chdir(made)
    yield made
    patch.undo()
    sys.modules.pop("cosine_attention", None)


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    options = ["--model.attention", NAME, "--model.layers", "2", "--model.width", "12", "--model.heads", "3"]
    more = ["--steps", "4", "--batch", "3", "--length", "17", "--tokenizer.kind", "character"]
    assert main(["train", "book.txt", "--out", "run", *options, *more]) == 0
    return place / "run"


def test_in_a_layer(place: Path) -> None:
    layer = hw.nn.Attention(width=12, heads=3, mechanism=NAME, causal=True).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    q, k, v = (part.view(2, 5, 3, 4).transpose(1, 2) for part in layer.qkv(x).split(12, -1))
    scores = 10 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
    scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    wanted = layer.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 12))
    torch.testing.assert_close(layer(x), wanted, rtol=1e-12, atol=1e-12)


def test_in_a_configuration_and_on_disk(place: Path) -> None:
    model = hw.build("gpt2", **SMALL, attention=NAME, temperature=5.0).eval()
    assert model.config.stack.block.attention.mechanism.temperature == 5.0
    again = model.config.replace("stack.block.attention", mechanism={"kind": NAME, "temperature": 7.0})
    assert again.stack.block.attention.mechanism.temperature == 7.0
    hw.save(model, place / "saved")
    said = json.loads((place / "saved" / "config.json").read_text())
    assert said["config"]["stack"]["block"]["attention"]["mechanism"] == {"kind": NAME, "temperature": 5.0}
    other, tokens = hw.load(place / "saved").model, torch.randint(0, 31, (2, 9))
    assert other.config == model.config
    torch.testing.assert_close(other(tokens), model(tokens), rtol=0, atol=0)


def test_a_layout_without_words_for_it_is_refused(place: Path, tmp_path: Path) -> None:
    model = hw.build("gpt2", **SMALL, attention=NAME)
    with pytest.raises(ValueError, match="this model is saved with layout \"headway\", not 'gpt2'"):
        hw.save(model, tmp_path / "gpt2", layout="gpt2")
    model = hw.build(model.config.replace(family="gpt2"))
    with pytest.raises(ValueError, match="save it with layout='headway'"):
        hw.save(model, tmp_path / "gpt2")
    assert not (tmp_path / "gpt2").exists()


def test_read_back_in_another_process_and_refused_where_the_file_is_missing(
    run: Path, tmp_path: Path, processes: Processes
) -> None:
    command = ["generate", str(run), "--prompt", "the", "--max-new-tokens", "3"]
    done = processes.headway(*command, cwd=run.parent)
    assert done.wait() == 0, done.stderr
    lost = processes.headway(*command, cwd=tmp_path)
    assert lost.wait() == 2 and "Traceback" not in lost.stderr
    assert f"the attention {NAME} is somebody's own, and its file is needed: there is no module" in lost.stderr


def test_trained_and_decoded_with_a_cache_as_without(run: Path) -> None:
    model = hw.load(run, dtype="float64").model
    assert model.config.stack.block.attention.mechanism.kind == NAME
    found = [hw.generate(model, "the tide", max_new_tokens=7, cache=cache).tokens for cache in (True, False)]
    assert found[0] == found[1] and len(found[0]) == 7


def test_in_cost_audit_and_look(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, plain = hw.price(run, length=13), hw.price(hw.build("gpt2", **SMALL | {"vocabulary": 20}), length=13)
    assert {line.path: line.operation.forward.dense for line in own.operations if line.path.endswith("core")} == {
        line.path: line.operation.forward.dense for line in plain.operations if line.path.endswith("core")
    }
    assert own.reach is not None and own.memory is not None
    report = hw.examine(run, laws="causal,padding,cache,export")
    assert [one.status for one in report] == ["holds"] * 4, str(report)
    seen = hw.show(run, "the tide")
    assert main(["look", str(run), "the tide"]) == 0 and "decoder 1" in capsys.readouterr().out
    assert seen is not None


def test_what_a_record_does_not_say_is_refused_by_name(place: Path) -> None:
    import cosine_attention  # type: ignore[import-not-found]

    silent = hw.Mechanism(
        "silent", cosine_attention.Cosine, **{
            name: getattr(cosine_attention.RECORD, name) for name in ("reference", "attend", "weights", "operation")
        }, laws=frozenset(),
    )  # fmt: skip
    spec = read_spec(NAME)
    with pytest.raises(ValueError, match="silent attention looks at is known to its author alone"):
        silent.pattern_of(spec)
    assert silent.cache_of(spec).kind == "none" and "silent attention" in silent.cache_of(spec).why


def test_a_name_that_is_no_record_is_refused(place: Path) -> None:
    with pytest.raises(ValueError, match=r"cosine_attention has no 'RECRD' \(did you mean RECORD\?\)"):
        read_spec("cosine_attention:RECRD")
    with pytest.raises(ValueError, match="cosine_attention:unit is a function, not the record of a mechanism"):
        read_spec("cosine_attention:unit")


def test_what_cannot_be_saved_is_never_said_to_hold() -> None:
    """A feature that is a function of one's own has no name on disk."""
    model = hw.build("gpt2", **SMALL, attention="linear", feature=torch.exp).eval()
    found = hw.examine(model, laws="export")["export"]
    assert found.status == "not applicable" and "cannot be written down" in found.why
