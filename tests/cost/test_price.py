"""`headway.price`: what it takes, what it refuses, and that its parts agree."""

from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from torch import nn

import headway
from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Frozen, Spatial, StackConfig
from headway.cost.input_lengths import PriceRequest, fixed_length
from headway.cost.price import drafted
from headway.cost.sheet import Sheet
from headway.models import on_meta
from headway.presets import names, preset
from headway.presets.gpt2 import gpt2
from tests.cost.tiny import MODELS
from tests.fresh import fresh

GPT = gpt2(width=15, layers=2, heads=3, hidden=22, vocabulary=13, length=31)


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user runs it: checking the annotations of every step of a memory's walk takes seconds."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def draft(target: Any, **asked: Any) -> Sheet:
    """Without memory, reach and times, which have tests of their own."""
    return drafted(target, PriceRequest(**asked))


def made() -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 5))


def configured() -> Frozen:
    return GPT


@pytest.mark.parametrize("name", MODELS)
def test_operations_and_phases_agree(name: str) -> None:
    sheet = draft(MODELS[name], batch=2)
    costs = [(line.runs, line.operation.forward) for line in sheet.operations]
    assert sheet.macs == sum(runs * cost.dense for runs, cost in costs)
    assert sheet.other_flops == sum(runs * cost.other for runs, cost in costs)
    assert sheet.flops == 2 * sheet.macs
    assert sheet.params == sum(line.sets * line.operation.parameters for line in sheet.operations)
    assert 0 < sheet.useful_flops <= sheet.flops
    assert sheet.phases["step"].dense == sheet.phases["forward"].dense + sheet.phases["backward"].dense


def test_a_target_by_name_by_configuration_by_model_and_from_disk(tmp_path: Path) -> None:
    wanted = headway.price(GPT, batch=2, length=7)
    model = fresh(GPT)
    headway.save(model, tmp_path / "run" / "model")
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    here = f"{__name__}:configured"
    for target in (model, on_meta(GPT), tmp_path / "run" / "model", str(tmp_path / "run"), here):
        sheet = draft(target, batch=2, length=7)
        assert (sheet.params, sheet.flops, sheet.depth) == (wanted.params, wanted.flops, wanted.depth)
    assert headway.price(here, length=3, name="mine").name == "mine"
    assert draft(fresh(GPT)).name == "Language"


def test_layers_by_themselves() -> None:
    attention = AttentionConfig(width=6, heads=2)
    block = BlockConfig(attention=attention, order="none", residual=False)
    for target in (attention, block, StackConfig(block=block, layers=1)):
        sheet = draft(target, batch=2, length=5)
        assert sheet.macs == 2 * (4 * 5 * 6 * 6 + 2 * 5 * 5 * 6)
    grid = AttentionConfig(width=6, heads=2, mechanism=Spatial(grid=(3, 4), window=(3, 4)))
    assert draft(grid).setting.length == 12


def test_somebody_elses_module_is_traced() -> None:
    for target in (made(), f"{__name__}:made"):
        sheet = headway.price(target, batch=2, length=3)
        assert (sheet.macs, sheet.params) == (2 * 3 * 6 * 5, 7 * 6 + 6 * 5 + 5)
        assert sheet.parameters["embeddings"] == 42
        assert set(sheet.phases) == {"forward", "backward", "step"}
    assert headway.price(nn.Linear(3, 5), inputs="vectors:2,7,3").macs == 2 * 7 * 3 * 5
    frozen = nn.Linear(3, 5).requires_grad_(False)
    assert headway.price(frozen, length=2).phases["backward"].dense == 0


def test_the_length_a_model_was_made_for() -> None:
    lengths = {name: draft(name).setting.length for name in ("gpt2", "vit-b16", "t5-small", "rnnsearch")}
    assert lengths == {"gpt2": 1024, "vit-b16": 197, "t5-small": 512, "rnnsearch": 128}
    assert draft("vit-b16", image=384).setting.length == 577


def test_decoding_holds_the_text_and_never_more_than_there_are_positions() -> None:
    assert draft(GPT, length=7).setting.past == 7
    assert draft(GPT).setting.past == 30
    shorter, longer = (draft(GPT, length=7, past=past).phases["decode"].dense for past in (5, 11))
    assert longer - shorter == 2 * 6 * 2 * 15  # two layers, six more keys, scores and weighted sum
    assert draft(GPT, length=7, past=5).macs == draft(GPT, length=7).macs


def test_generation_is_a_prompt_and_single_tokens() -> None:
    sheet = draft(GPT, length=7, new=3)
    single = [draft(GPT, length=7, past=past).phases["decode"] for past in (7, 8)]
    assert sheet.phases["generate"] == sheet.phases["prefill"] + single[0] + single[1]
    assert "generate" not in draft(GPT, length=7).phases


def test_a_whole_sheet() -> None:
    sheet = headway.price(MODELS["bare"], batch=2, length=7, memory="20k")
    assert sheet.memory.weights == 4 * sheet.params
    assert sheet.reach.full_from == 1
    assert [(one.what, one.phase) for one in sheet.fits] == [
        ("batch", "step"), ("length", "step"), ("batch", "forward"), ("length", "forward")
    ]  # fmt: skip
    assert all(one.count >= 1 and one.bytes <= 20_000 < one.more for one in sheet.fits)
    with pytest.raises(ValueError, match="no amount of memory"):
        headway.price(GPT, memory="8Q")


def test_padding_makes_less_useful_and_no_fewer_dense() -> None:
    full, padded = draft(GPT, batch=2, length=9), draft(GPT, batch=2, length=9, lengths=(5, 9))
    assert padded.flops == full.flops
    # of causal rows of 9, those beyond the fifth see 5 tokens each and not 6, 7, 8, 9
    assert full.useful_flops - padded.useful_flops == 2 * 2 * 2 * 15 * (1 + 2 + 3 + 4)


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        (GPT, {"batch": 0}, "batch is at least 1, not 0"),
        (GPT, {"length": -5}, "length is at least 1, not -5"),
        (GPT, {"length": 32}, "31 positions, too few for a length of 32"),
        (GPT, {"length": 30, "new": 3}, "31 positions: a prompt of 30 leaves room for 2 new tokens, not 3"),
        (GPT, {"past": 31}, "31 positions: 31 in the cache leave none"),
        (GPT, {"past": -1}, "past is at least 1"),
        (GPT, {"source": 5}, "language model reads no source"),
        (GPT, {"lengths": (5, 9), "length": 9}, "lengths of 2 rows do not fit a batch of 1"),
        (GPT, {"lengths": (12,), "length": 9}, "a row has 1 to 9 tokens, not 12"),
        (GPT, {"lengths": (0,), "length": 9}, "a row has 1 to 9 tokens, not 0"),
        (GPT, {"dtype": "float31"}, "no dtype 'float31'.*float32"),
        (GPT, {"optimiser": "admw"}, "no price of optimiser 'admw'.*adamw"),
        (GPT, {"image": 32}, "language model reads no pictures"),
        (GPT, {"inputs": "tokens"}, "knows what it reads"),
        (MODELS["bert-words"], {"new": 3}, "masked model writes no tokens"),
        (MODELS["bert-words"], {"length": 32}, "31 positions"),
        (MODELS["sentence"], {"length": 32}, "31 positions"),
        (MODELS["seq2seq"], {"source_lengths": (8,), "source": 7}, "source lengths: a row has 1 to 7 tokens, not 8"),
        (MODELS["seq2seq"], {"source": 0}, "source is at least 1"),
        (MODELS["vit"], {"length": 7}, "image has 13 positions, not 7"),
        (MODELS["vit"], {"image": 3}, "image of 3 has no whole patch of 5"),
        (MODELS["vit"], {"image": 0}, "at least one pixel a side"),
        (MODELS["vit-mean"], {"image": 20}, "grid of"),
        (MODELS["vit"], {"lengths": (7,)}, "never padded"),
        (made(), {"past": 5}, "priced by tracing it: leave 'past' out"),
        (made(), {"batch": 0}, "batch is at least 1"),
        (nn.Identity(), {}, "cannot tell what Identity reads"),
        (7, {}, "not of int"),
        ("gtp2", {}, "did you mean gpt2"),
        ("tests.cost.tiny:VOCABULARY", {}, "not a function"),
        (FeedForwardConfig(hidden=5), {}, "configures no model with a price"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(target: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        headway.price(target, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in names() if not name.endswith("-fl")])
def test_every_preset_has_a_price(name: str) -> None:
    length = 5 if fixed_length(preset(name)) is None else None
    assert draft(name, length=length).flops > 0
