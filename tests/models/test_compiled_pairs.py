"""Steps of models that read a source, by compiled programs against the layers."""

from functools import cache

import pytest
import torch
from torch import Tensor

from headway.models import compiled_steps
from headway.models.quantize import quantize_model
from headway.models.seq2seq import Seq2Seq
from headway.native import build
from tests.models.test_compiled_steps import calls as calls
from tests.models.test_compiled_steps import plainly
from tests.models.test_seq2seq import KINDS, SOURCE, TARGET, config

SERVED = {
    "learned": {**KINDS["learned"]},
    "post": {"positions": "learned", "offset": 3, "embedding_norm": True, "post": True},
    "halves": {"positions": "halves", "embedding_scale": 3.7, "tied": False, "head_bias": True},
    "sinusoidal": KINDS["sinusoidal"],
    "timing": {**KINDS["timing"], "head_bias": True},
    "int8": {"positions": "halves", "head_bias": True},
}


@cache
def made(name: str) -> Seq2Seq:
    options = dict(SERVED.get(name) or KINDS[name])
    post = options.pop("post", False)
    c = config(**options)
    if post:
        c = c.replace(decoder=c.decoder.replace(block=c.decoder.block.replace(order="post"), final_norm=False))
    torch.manual_seed(5)
    found = Seq2Seq(c).eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return quantize_model(found, "int8") if name == "int8" else found  # pyright: ignore[reportReturnType]


def steps(model: Seq2Seq, source: Tensor, *, keep: Tensor | None = None, beams: bool = False) -> Tensor:
    session, rows, found = model.session(source, keep=keep), len(source), []
    for step in range(6):
        tokens = (torch.arange(rows)[:, None] * 7 + step * 3 + 2) % TARGET
        found.append(session.read(tokens))
        if beams:  # rows of one source change places, and one source falls away
            order = torch.arange(rows).view(-1, 2).flip(1).flatten()
            session.select(order if step != 3 else order[2:])
            rows = rows if step != 3 else rows - 2
    return torch.cat(found)


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("padded", [False, True])
def test_steps_of_a_decoder_are_those_of_the_layers(name: str, padded: bool, calls: list[bool]) -> None:
    model, source = made(name), torch.randint(0, SOURCE, (5, 11))
    keep = torch.arange(11) < torch.tensor([11, 1, 7, 3, 5])[:, None] if padded else None
    found = steps(model, source, keep=keep)
    assert calls == [False] + [True] * 5  # the first token finds empty caches
    assert torch.allclose(found, plainly(lambda: steps(model, source, keep=keep)), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["relative", "halves"])
def test_what_no_program_knows_is_left_to_the_layers(name: str, calls: list[bool]) -> None:
    model = made(name) if name == "relative" else Seq2Seq(config(**KINDS["halves"])).eval()  # head_scale
    steps(model, torch.randint(0, SOURCE, (2, 5)))
    assert calls == [False] * 6


@pytest.mark.parametrize("name", ["post", "int8"])
def test_rows_of_beams(name: str, calls: list[bool]) -> None:
    model, source = made(name), torch.randint(0, SOURCE, (3, 7)).repeat_interleave(2, 0)
    found = steps(model, source, beams=True)
    assert calls == [False] + [True] * 5
    assert torch.allclose(found, plainly(lambda: steps(model, source, beams=True)), atol=1e-4, rtol=1e-5)


def test_a_row_of_a_decoder_is_the_same_in_any_company_bit_for_bit() -> None:
    model, source = made("post"), torch.randint(0, SOURCE, (9, 6))
    together, alone = model.session(source), model.session(source)
    for session in (together, alone):
        session.read(torch.full((9, 1), 2))
    alone.select(torch.tensor([4]))
    for step in range(4):
        tokens = torch.randint(0, TARGET, (9, 1))
        assert torch.equal(together.read(tokens)[4], alone.read(tokens[4:5])[0]), step


def test_positions_beyond_the_table_go_to_the_layers(monkeypatch: pytest.MonkeyPatch, calls: list[bool]) -> None:
    monkeypatch.setattr(compiled_steps, "_TABLED", 22 * 3)  # three positions
    c = config(**KINDS["sinusoidal"])
    model, source = Seq2Seq(c).eval(), torch.randint(0, SOURCE, (2, 5))
    found = steps(model, source)
    assert calls == [False, True, True, False, False, False]
    assert torch.allclose(found, plainly(lambda: steps(model, source)), atol=1e-5, rtol=0)


def test_every_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    model, source = made("post"), torch.randint(0, SOURCE, (5, 11))
    right = plainly(lambda: steps(model, source))
    for variant in build.variants():
        monkeypatch.setattr(compiled_steps, "library", lambda variant=variant: build.load(variant))
        monkeypatch.setattr(model, "_compiled_steps", None, raising=False)
        assert torch.allclose(steps(model, source), right, atol=1e-4, rtol=1e-5), variant
    del model._compiled_steps
