"""What a model runs while its memory is traced: inputs that are shapes alone, a forward pass, a loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config.base import sides
from headway.cost.setting import Setting
from headway.ops.loss import linear_cross_entropy


@dataclass(frozen=True, eq=False)
class Passes:
    """Inputs that are there before a pass; what a plain forward pass computes, and the loss of a training step."""

    inputs: tuple[Tensor, ...]
    read: Callable[[Any], Tensor]
    loss: Callable[[Any], Tensor]


def passes_of(config: Any, setting: Setting) -> Passes:
    """By the kind of model."""
    kind = config.kind_or_name()
    if kind not in KINDS:
        raise ValueError(f"{kind} configures no model with a price; there are {', '.join(KINDS)}")
    return KINDS[kind](config, setting)


def _tokens(*shape: Any) -> Tensor:
    return torch.empty(shape, dtype=torch.long)


def _keep(setting: Setting, *, source: bool = False) -> Tensor | None:
    """Which tokens are real, where rows are padded."""
    lengths = setting.source_lengths if source else setting.lengths
    size = setting.source_length if source else setting.length
    return None if lengths is None else torch.empty(setting.batch, size, dtype=torch.bool)


def _language(config: Any, setting: Setting) -> Passes:
    tokens, targets, keep = (
        _tokens(setting.batch, setting.length),
        _tokens(setting.batch, setting.length),
        _keep(setting),
    )

    def read(model: Any) -> Tensor:
        hidden = model.hidden_states(tokens, keep=keep, mask=setting.mask)
        return model.logits(hidden if setting.logits is None else hidden[:, -setting.asked :])

    def loss(model: Any) -> Tensor:
        return model.cross_entropy(model.hidden_states(tokens, keep=keep, mask=setting.mask), targets)[0]

    return Passes((tokens, targets), read, loss)


def _classifier(config: Any, setting: Setting) -> Passes:
    tokens, labels = _tokens(setting.batch, setting.length), _tokens(setting.batch)
    padded, keep = _keep(setting), torch.empty(setting.batch, setting.length, dtype=torch.bool)

    def loss(model: Any) -> Tensor:
        hidden = model.hidden_states(tokens, keep=keep, mask=setting.mask)
        return torch.nn.functional.cross_entropy(model.classify(hidden, tokens, keep), labels, reduction="sum")

    return Passes((tokens, keep, labels), lambda model: model(tokens, keep=padded, mask=setting.mask), loss)


def _masked(config: Any, setting: Setting) -> Passes:
    tokens, types = _tokens(setting.batch, setting.length), _tokens(setting.batch, setting.length)
    padded, keep = _keep(setting), torch.empty(setting.batch, setting.length, dtype=torch.bool)
    inputs = (tokens, types, keep)

    def read(model: Any) -> Tensor:
        return model(tokens, keep=padded, mask=setting.mask)

    if config.classes or config.token_classes or config.answers or not config.words:
        labels = _tokens(setting.batch * setting.length if config.token_classes else setting.batch)

        def judge(model: Any) -> Tensor:
            hidden = model.hidden_states(tokens, keep=keep, types=model.told_apart(types), mask=setting.mask)
            if config.classes:
                return torch.nn.functional.cross_entropy(model.classify(hidden, keep), labels, reduction="sum")
            if config.token_classes:
                scores = model.classify_tokens(hidden).flatten(0, 1)
                return torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
            if config.answers:
                return model.answers(hidden).sum()
            return model.replaced(hidden).sum() if config.replaced else hidden.sum()

        return Passes((*inputs, labels), read, judge)
    words, rows, columns = (_tokens(setting.batch * setting.asked) for _ in range(3))

    def loss(model: Any) -> Tensor:
        hidden = model.hidden_states(tokens, keep=keep, types=model.told_apart(types), mask=setting.mask)
        asked = hidden[rows, columns]  # the places where a word is hidden
        head = model.word_head
        return linear_cross_entropy(head.features(asked), model.tokens.weight, words, bias=head.bias)[0]

    return Passes((*inputs, _tokens(setting.batch, setting.length)), read, loss)


def _sentence(config: Any, setting: Setting) -> Passes:
    """Of the texts of a batch one half belongs to the other."""
    plain = _tokens(setting.batch, setting.length)
    half = -(-setting.batch // 2)
    rows = [_tokens(half * setting.length) for _ in "ab"]
    lengths = [setting.length] * half

    def loss(model: Any) -> Tensor:
        one, other = (torch.nn.functional.normalize(model.encode_row(row, lengths), dim=-1) for row in rows)
        scores, right = one @ other.T / 0.05, torch.arange(len(one))
        ways = [torch.nn.functional.cross_entropy(way, right, reduction="sum") for way in (scores, scores.T)]
        return (ways[0] + ways[1]) / 2

    return Passes((plain, *rows), lambda model: model(plain), loss)


def _seq2seq(config: Any, setting: Setting) -> Passes:
    source, target = _tokens(setting.batch, setting.source_length), _tokens(setting.batch, setting.length)
    targets = _tokens(setting.batch, setting.length)
    kept, other = _keep(setting, source=True), _keep(setting)

    def hidden(model: Any) -> Tensor:
        memory = model.encode(source, keep=kept)
        more = {"source_keep": kept} if config.kind_or_name() == "seq2seq" else {}
        return model.hidden_states(target, memory, keep=other, **more)

    def read(model: Any) -> Tensor:
        found = hidden(model)
        return model.logits(found if setting.logits is None else found[:, -setting.asked :])

    return Passes((source, target, targets), read, lambda model: model.cross_entropy(hidden(model), targets)[0])


def _images(config: Any, setting: Setting) -> Passes:
    dtype = getattr(torch, setting.dtype)
    pictures = torch.empty(setting.batch, config.channels, *sides(config.image), dtype=torch.float32)
    labels = _tokens(setting.batch)

    def loss(model: Any) -> Tensor:
        hidden = model.hidden_states(pictures)
        return model.cross_entropy(hidden, labels)[0] if config.classes else hidden.sum(dtype=dtype)

    return Passes((pictures, labels), lambda model: model(pictures), loss)


def _clip(config: Any, setting: Setting) -> Passes:
    vision = config.vision
    pictures = torch.empty(setting.batch, vision.channels, *sides(vision.image), dtype=torch.float32)
    tokens, keep = _tokens(setting.batch, setting.length), _keep(setting)
    return Passes(
        (pictures, tokens), lambda model: model(pictures, tokens, keep=keep),
        lambda model: model.loss(pictures, tokens, keep=keep),
    )  # fmt: skip


def _vectors(config: Any, setting: Setting) -> Passes:
    x = torch.empty(setting.batch, setting.length, config.width, dtype=getattr(torch, setting.dtype))
    keep = _keep(setting)
    return Passes(
        (x,), lambda model: model(x, keep=keep, mask=setting.mask),
        lambda model: model(x, keep=keep, mask=setting.mask).sum(),
    )  # fmt: skip


KINDS: dict[str, Callable[[Any, Setting], Passes]] = {
    "language": _language, "classifier": _classifier, "masked": _masked, "sentence": _sentence, "seq2seq": _seq2seq,
    "recurrent": _seq2seq, "vision": _images, "clip": _clip, "davit": _images, "vectors": _vectors,
}  # fmt: skip
