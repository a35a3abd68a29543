"""Comparisons that every family of encoder-decoders has to pass: the same source and target in both libraries."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import jaxtyping
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

import headway
from headway.hub.parts import parts_of
from headway.models.seq2seq import Seq2Seq
from tests.parity.compare import close, outputs_of, ragged

SOURCES, TARGETS = [7, 13, 2], [5, 3, 11]


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    """Without checking annotations, which tests/models does, these comparisons take a third of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def logits(other: PreTrainedModel, source: Tensor, target: Tensor) -> Tensor:
    """Theirs, of one text without padding."""
    return other(input_ids=source[None], decoder_input_ids=target[None]).logits[0]


@torch.no_grad()
def same_states(other: PreTrainedModel, model: Seq2Seq, encoder: Sequence[nn.Module], decoder: Sequence[nn.Module]):
    """Logits and what every layer of both stacks gives; `encoder` and `decoder` are their layers."""
    draws = zip(_texts(model, SOURCES, 0), _texts(model, TARGETS, 1, target=True), strict=True)
    for source, target in draws:
        ours = [*model.encoder.blocks, *model.decoder.blocks]
        found = outputs_of(ours, partial(model, source[None], target[None]))
        expected = outputs_of([*encoder, *decoder], partial(logits, other, source, target))
        assert len(found) == model.config.encoder.layers + model.config.decoder.layers
        assert all(close(one, theirs) for one, theirs in zip(found, expected, strict=True))
        whole = other(input_ids=source[None], decoder_input_ids=target[None], output_hidden_states=True)
        memory = model.encode(source[None])
        assert close(memory, whole.encoder_last_hidden_state)
        assert close(model.hidden_states(target[None], memory), whole.decoder_hidden_states[-1])
        assert close(model(source[None], target[None]), whole.logits)


@torch.no_grad()
def same_under_padding(other: PreTrainedModel, model: Seq2Seq, source_side: str, target_side: str) -> None:
    """A padded batch gives at each real place what the text gives alone."""
    sources, source, source_keep = _batch(model, SOURCES, side=source_side)
    targets, target, target_keep = _batch(model, TARGETS, side=target_side, seed=1, target=True)
    found = model(source, target, source_keep=source_keep, target_keep=target_keep)
    for row, text in enumerate(targets):
        assert close(found[row][target_keep[row]], logits(other, sources[row], text))


@torch.no_grad()
def same_in_pieces(other: PreTrainedModel, model: Seq2Seq, side: str, *, cache: bool) -> None:
    """Ragged targets read in three pieces; between them rows are turned round, and others join."""
    sources, source, keep = _batch(model, SOURCES, side=side)
    targets, target, target_keep = _batch(model, [1, 4, 2], side=side, seed=1, target=True)
    session = model.session(source, keep=keep, cache=cache, capacity=3)
    assert session.rows == 3 and session.lengths.tolist() == [0, 0, 0]
    first = session.read(target, target_keep)
    late = model.session(sources[0][None], cache=cache)
    late.read(targets[1][None])
    session.select(torch.tensor([2, 0, 2]))
    session.join(late)
    order, begun = [2, 0, 2, 0], [targets[2], targets[0], targets[2], targets[1]]
    more = unpadded(model, torch.randint(0, model.config.outputs, (4, 4)))
    found = [session.read(more[:, :3]), session.read(more[:, 3:])]
    assert session.rows == 4 and session.lengths.tolist() == [6, 5, 6, 8]
    for row in range(3):
        assert close(first[row], logits(other, sources[row], targets[row])[-1])
    for row, (place, begin) in enumerate(zip(order, begun, strict=True)):
        expected = logits(other, sources[place], torch.cat([begin, more[row]]))
        assert close(found[0][row], expected[-2]) and close(found[1][row], expected[-1])


@torch.no_grad()
def same_after_saving(other: PreTrainedModel, model: Seq2Seq, path: Path) -> PreTrainedModel:
    """What we write loads there without a missing or unexpected key, with the same logits, and here again."""
    headway.save(model, path)
    again, report = AutoModelForSeq2SeqLM.from_pretrained(path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    source, target = _texts(model, [13], 0)[0], _texts(model, [7], 1, target=True)[0]
    assert torch.equal(logits(again.eval(), source, target), logits(other, source, target))
    assert headway.load(path).model.config == model.config
    return again


@torch.no_grad()
def can_fail(other: PreTrainedModel, model: Seq2Seq, names: Sequence[str]) -> None:
    """One number moved in any of these parameters must be seen."""
    source, target = _texts(model, [13], 0)[0], _texts(model, [7], 1, target=True)[0]
    expected = logits(other, source, target)
    for name in names:
        parameter = parts_of(model)[name]
        kept = parameter.clone()
        parameter.flatten()[:] += torch.linspace(0.05, 0.2, parameter.numel())
        assert not close(model(source[None], target[None])[0], expected), name
        parameter.copy_(kept)
    assert close(model(source[None], target[None])[0], expected)


def edit(path: Path, config: dict | None = None, **tensors: Tensor | None) -> None:
    """Change entries of a saved config.json, add tensors, leave out those that are None."""
    said = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(said | (config or {})))
    held = load_file(path / "model.safetensors") | tensors
    save_file({name: tensor for name, tensor in held.items() if tensor is not None}, path / "model.safetensors")


def _texts(model: Seq2Seq, lengths: list[int], seed: int, *, target: bool = False) -> list[Tensor]:
    return _batch(model, lengths, side="left", seed=seed, target=target)[0]


def _batch(
    model: Seq2Seq, lengths: list[int], *, side: str, seed: int = 0, target: bool = False
) -> tuple[list[Tensor], Tensor, Tensor]:
    vocabulary = model.config.outputs if target else model.config.vocabulary
    texts, tokens, keep = ragged(vocabulary, lengths, side=side, seed=seed)
    return [unpadded(model, text) for text in texts], unpadded(model, tokens), keep


def unpadded(model: Seq2Seq, tokens: Tensor) -> Tensor:
    """Without padding tokens inside of texts, where positions are counted without them (M2M-100): no text has any."""
    pad = model.config.special.pad if model.config.positions == "timing" else None
    return tokens if pad is None else torch.where(tokens == pad, pad + 1, tokens)
