"""Encoders and their heads beside transformers in float64: logits, every hidden state, padding, and the way back."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor, nn

import headway
from headway.hub.parts import parts_of
from headway.models.encoder import Masked
from tests.parity.compare import close, outputs_of, ragged
from tests.parity.encoders.cases import CASES, CLASSES, FAMILIES, FIRST, VOCABULARY, Encoders, theirs

AUTO = {"Model": "AutoModel", "ForPreTraining": "AutoModelForPreTraining"}


class Pair(NamedTuple):
    """One case: theirs, and ours as it was loaded."""

    family: Encoders
    head: str
    other: Any
    model: Masked
    place: Path


@pytest.fixture(scope="module", params=CASES, ids=lambda case: " ".join(case))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    family, head = request.param
    place = tmp_path_factory.mktemp("encoder")
    other = theirs(family, head, place / "theirs")
    model = headway.load(place / "theirs").model
    assert isinstance(model, Masked)
    return Pair(FAMILIES[family], head, other, model, place)


def texts(lengths: list[int], side: str) -> tuple[list[Tensor], Tensor, Tensor]:
    """Texts without special tokens: theirs count positions by the pad token's number."""
    rows, tokens, keep = ragged(VOCABULARY - FIRST, lengths, side=side)
    return [row + FIRST for row in rows], tokens + FIRST, keep


def types_of(model: Masked, tokens: Tensor) -> dict[str, Any]:
    """The sentences, where the model tells some apart: ours as types, theirs as token_type_ids."""
    found = torch.randint(0, max(model.config.types, 1), tokens.shape, generator=torch.Generator().manual_seed(3))
    return {"types": found} if model.config.types > 1 else {}


def alike(pair: Pair, hidden: Tensor, expected: Any, keep: Tensor | None = None, row: int = 0) -> None:
    """All outputs agree with theirs, which read this row alone."""
    for name, read in pair.family.heads[pair.head].items():
        found = read(pair.model, hidden, keep)[row]
        if keep is not None and found.shape[:1] == keep.shape[1:] and name != "pooler_output":
            found = found[keep[row]]
        assert close(found, expected[name][0], tolerance=pair.family.tolerance), name


def entering(model: Masked) -> nn.Module:
    """The last module before the stack."""
    return model.dropout if model.project is None else model.project


@torch.no_grad()
def test_logits_and_hidden_states(pair: Pair) -> None:
    for text in texts([1, 7, 19], "left")[0]:
        types = types_of(pair.model, text[None])
        expected = pair.other(text[None], **named(types), output_hidden_states=True)
        layers = [entering(pair.model), *pair.model.stack.blocks]
        found = outputs_of(layers, lambda: pair.model.hidden_states(text[None], **types))  # noqa: B023 (called at once)
        found[-1] = pair.model.stack.norm(found[-1])
        assert len(found) == len(expected.hidden_states)
        for ours, hidden in zip(found, expected.hidden_states, strict=True):
            assert close(ours, hidden, tolerance=pair.family.tolerance)
        alike(pair, found[-1], expected)


def named(types: dict[str, Any]) -> dict[str, Tensor]:
    return {"token_type_ids": types["types"]} if types else {}


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair: Pair, side: str) -> None:
    rows, tokens, keep = texts([5, 11, 2], side)
    types = types_of(pair.model, tokens)
    layers = outputs_of(pair.model.stack.blocks, lambda: pair.model.hidden_states(tokens, keep=keep, **types))
    layers[-1] = pair.model.stack.norm(layers[-1])
    for row, text in enumerate(rows):
        own = {name: value[row][keep[row]][None] for name, value in types.items()}
        expected = pair.other(text[None], **named(own), output_hidden_states=True)
        for ours, hidden in zip(layers, expected.hidden_states[1:], strict=True):
            assert close(ours[row][keep[row]], hidden[0], tolerance=pair.family.tolerance)
        alike(pair, layers[-1], expected, keep, row)


@torch.no_grad()
def test_their_own_padding_gives_the_same(pair: Pair) -> None:
    """On the right, and with the pad token: then theirs is right too, and the whole batch can be compared."""
    _, tokens, keep = texts([5, 11, 2], "right")
    tokens = tokens.masked_fill(~keep, pair.model.config.special.pad or 0)
    expected = pair.other(tokens, attention_mask=keep.long(), output_hidden_states=True).hidden_states[-1]
    found = pair.model.hidden_states(tokens, keep=keep)
    assert close(found[keep], expected[keep], tolerance=pair.family.tolerance)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: Pair, tmp_path: Path) -> None:
    headway.save(pair.model, tmp_path / "ours")
    assert headway.load(tmp_path / "ours").model.config == pair.model.config
    kind = pair.family.stem + pair.head
    auto = getattr(transformers, AUTO.get(pair.head, f"AutoModel{pair.head}"))
    again, report = auto.from_pretrained(tmp_path / "ours", output_loading_info=True, dtype=torch.float64)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert (type(again).__name__, again.config.architectures) == (kind, [kind])
    expected = pair.other.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in again.state_dict().items())
    tokens = torch.randint(FIRST, VOCABULARY, (2, 13))
    for name in pair.family.heads[pair.head]:
        assert close(again(tokens)[name], pair.other(tokens)[name], tolerance=1e-14)
    assert getattr(again.config, "pad_token_id", None) == getattr(pair.other.config, "pad_token_id", None)
    if "Classification" in pair.head:
        assert again.config.id2label == pair.other.config.id2label and again.config.num_labels == CLASSES


@torch.no_grad()
def test_every_weight_is_seen(pair: Pair) -> None:
    """The comparison can fail: whichever tensor is another, the outputs are. One layer stands for all."""
    tokens = torch.arange(FIRST, FIRST + 7)[None]
    expected = pair.other(tokens)
    alike(pair, pair.model.hidden_states(tokens), expected)
    draw = torch.Generator().manual_seed(7)
    # A bias of keys changes all scores of a query alike, and the pooler is no part of the last hidden state.
    pooled = pair.head == "ForSequenceClassification" or "pooler_output" in pair.family.heads[pair.head]
    unseen = ("key.bias",) if pooled else ("key.bias", "pooler.weight", "pooler.bias")
    places = (
        ("",) if pair.head == "ForMaskedLM" else ("pooler", "class_head", "token_head", "answer_head", "replaced_head")
    )
    seen = 0 if pair.model.config.stack.shared else 1
    others = tuple(f"stack.blocks.{layer}." for layer in range(4) if layer != seen)
    for name, part in parts_of(pair.model).items():
        if name.endswith(unseen) or not name.startswith(places) or name.startswith(others):
            continue
        noise = torch.randn(part.shape, generator=draw, dtype=part.dtype)
        part += noise
        with pytest.raises(AssertionError, match=r"logits|hidden|output"):
            alike(pair, pair.model.hidden_states(tokens), expected)
        part -= noise
