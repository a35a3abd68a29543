"""What a model is trained for: one function per task, from the tensors of a batch to sums of losses.

Sums, so that parts of a batch and processes add up. A `Learner` is a model with its objective as one module: the unit
that is trained, compiled and spread over processes. A `TrainingSetup` adds the examples.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.base import IGNORED
from headway.config.train import TrainConfig
from headway.data.batch import Examples
from headway.data.hashes import FileHash
from headway.data.masked_text import OBJECTIVES
from headway.data.tokenizer import Tokenizer
from headway.models.classifier import DecoderClassifier
from headway.models.davit import DaViT
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.lora import adapters_off
from headway.models.own_module import OwnModule
from headway.models.recurrent import Recurrent
from headway.models.sentence import SentenceEncoder
from headway.models.seq2seq import Seq2Seq
from headway.models.vit import Vision
from headway.nn.context import agreeing
from headway.nn.modes import evaluating
from headway.ops.loss import cross_entropy_sum, divergence, log_probabilities
from headway.ops.mask import packed


class LossSums(NamedTuple):
    """For each loss its sum over what it was asked of, and where answers are right or wrong, how many are right."""

    losses: dict[str, Tensor]
    hits: dict[str, Tensor] = {}  # noqa: RUF012


Objective = Callable[..., LossSums]


class Learner(nn.Module):
    """Tensors of a batch in, sums of losses out."""

    def __init__(self, model: nn.Module, objective: Objective, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self._objective, self._smoothing = objective, smoothing
        self.agree: Callable[[bool], bool] | None = (
            None  # where processes compute one pass together: whether any says so
        )

    def forward(self, inputs: dict[str, Tensor]) -> LossSums:
        with nullcontext() if self.agree is None else agreeing(self._all_sound):
            # Labels are smoothed to learn from, and plain to measure with.
            return self._objective(self.model, inputs, smoothing=self._smoothing if self.training else 0.0)

    def _all_sound(self, sound: bool) -> bool:
        assert self.agree is not None
        return not self.agree(not sound)


def total_loss(found: LossSums, weights: Mapping[str, float], counts: Mapping[str, float]) -> Tensor:
    """Σ weight · sum / count: the loss of a step, or the part of it that this batch brings."""
    parts = [weights.get(name, 1.0) * loss / max(counts[name], 1.0) for name, loss in found.losses.items()]
    loss: Any = sum(parts)
    return loss


def unused_heads(model: Masked, like: Tensor) -> Float[Tensor, ""]:
    """The number 0, with a gradient of 0 for every parameter of pooler and heads: processes that train together wait
    for a gradient of each."""
    nobody = like.new_zeros(0, 1, model.config.stack.block.output_width, dtype=model.tokens.weight.dtype)
    asked = {
        model.pooled: model.pooler, model.words: model.word_head, model.adjacent: model.adjacent_head,
        model.inverted: model.inverted_head, model.inference: model.inference_head, model.classify: model.class_head,
        model.classify_tokens: model.token_head, model.answers: model.answer_head, model.replaced: model.replaced_head,
    }  # fmt: skip
    parts = [ask(nobody).sum() for ask, head in asked.items() if head is not None]
    return torch.stack(parts).sum() if parts else like.new_zeros(())


def language_loss(model: Language | OwnModule, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """Windows of a text; with `lengths`, documents one after the other in one row, each of which sees itself alone."""
    total, right = model.cross_entropy(read_windows(model, inputs), inputs["targets"], smoothing=smoothing)
    return LossSums({"loss": total}, {"loss": right})


def read_windows(model: Any, inputs: Mapping[str, Tensor]) -> Float[Tensor, "B L D"]:
    tokens, lengths = inputs["tokens"], inputs.get("lengths")
    if lengths is None:
        return model.hidden_states(tokens)
    return model.hidden_states(tokens, positions=restarting(lengths)[None], mask=packed(lengths.tolist()))


def preference_loss(
    model: Language, inputs: Mapping[str, Tensor], *, reference: Language | None, beta: float, smoothing: float = 0.0
) -> LossSums:
    """Σ -log σ(m) over pairs, the chosen rows first (DPO: arXiv:2305.18290).

        m = beta · (log π(chosen) - log π(rejected) - log π₀(chosen) + log π₀(rejected))

    π₀ is the reference, or without one the model without its adapters. With smoothing s a share s of the preferences is
    taken to be the wrong way round. A right answer has m > 0.
    """
    own = answers(model, inputs)
    with torch.no_grad(), evaluating(model), nullcontext() if reference is not None else adapters_off(model):
        before = answers(model if reference is None else reference, inputs)
    gained = (own - before).chunk(2)
    margin = beta * (gained[0] - gained[1])
    loss = -(1 - smoothing) * F.logsigmoid(margin) - smoothing * F.logsigmoid(-margin)
    return LossSums({"loss": loss.sum()}, {"loss": (margin > 0).sum()})


def answers(model: Language, inputs: Mapping[str, Tensor]) -> Float[Tensor, " B"]:
    """log p of the targets of each row."""
    hidden, targets = model.hidden_states(inputs["tokens"]), inputs["targets"]
    real = targets != IGNORED
    found = log_probabilities(model.head_on(hidden[real]), targets[real])
    rows = torch.arange(len(targets), device=targets.device)[:, None].expand_as(targets)[real]
    return found.new_zeros(len(targets)).index_add(0, rows, found)


def distillation_loss(
    model: Language,
    inputs: Mapping[str, Tensor],
    *,
    teacher: Language,
    temperature: float,
    weight: float,
    smoothing: float = 0.0,
) -> LossSums:
    """(1 - weight) · the loss of the text + weight · T² KL(teacher ‖ model) (arXiv:1503.02531); measured is the first.

    Both read the same tokens, and differ where a target is asked for.
    """
    if not model.training:
        return language_loss(model, inputs)
    hidden, targets = read_windows(model, inputs), inputs["targets"]
    total, right = model.cross_entropy(hidden, targets, smoothing=smoothing)
    with torch.no_grad():
        wanted = read_windows(teacher, inputs)
    real = targets != IGNORED
    apart = divergence(model.head_on(hidden[real]), teacher.head_on(wanted[real]), temperature=temperature)
    return LossSums({"loss": (1 - weight) * total + weight * apart}, {"loss": right})


def restarting(lengths: Int[Tensor, " N"]) -> Int[Tensor, " T"]:
    """Positions of texts that stand one after the other: 0, 1, … in each.

    >>> restarting(torch.tensor([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    return torch.arange(len(starts), device=lengths.device) - starts


def seq2seq_loss(model: Seq2Seq | Recurrent, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """The sum over real tokens of the target; padding does not go through the head."""
    source_keep, target_keep = _needed(inputs["source_keep"]), _needed(inputs["target_keep"])
    if isinstance(model, Recurrent):
        memory = model.encode(inputs["source"], keep=source_keep)
        hidden = model.hidden_states(inputs["target"], memory, keep=target_keep)
    else:
        encoded = model.encode(inputs["source"], keep=source_keep)
        hidden = model.hidden_states(inputs["target"], encoded, source_keep=source_keep, keep=target_keep)
    total, right = model.cross_entropy(hidden, inputs["targets"], smoothing=smoothing)
    return LossSums({"loss": total}, {"loss": right})


def _needed(keep: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"] | None:
    """None where nothing is padding: attention then has nothing to hide, which is faster."""
    return None if bool(keep.all()) else keep


def masked_loss(
    model: Masked, inputs: dict[str, Tensor], *, smoothing: float = 0.0, names: Sequence[str] | None = None
) -> LossSums:
    """Sums of -log p over hidden words and over the rows of each question; `names`: those in use, or all heads'."""
    keep = inputs["keep"]
    hidden = model.hidden_states(inputs["tokens"], keep=keep, types=model.told_apart(inputs["types"]))
    losses, hits = {}, {}
    for name in _heads(model) if names is None else names:
        if name == "words":
            losses[name], hits[name] = model.word_loss(hidden, inputs["words"], smoothing=smoothing)
        else:
            ask = {"adjacent": model.adjacent, "inverted": model.inverted, "inference": model.inference}[name]
            mine = inputs["kind"] == OBJECTIVES.index(name)
            labels = inputs["label"].where(mine, IGNORED)
            losses[name], hits[name] = cross_entropy_sum(ask(hidden, keep), labels, smoothing=smoothing)
    nothing = unused_heads(model, hidden)
    return LossSums({name: loss + nothing for name, loss in losses.items()}, hits)


def _heads(model: Masked) -> list[str]:
    c = model.config
    return [name for name, has in zip(OBJECTIVES, (c.words, c.adjacent, c.inverted, c.inference), strict=True) if has]


def classification_loss(model: Masked, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """Σ -log p of the right classes."""
    if model.config.outcome != "one":
        raise ValueError(f"a classifier with outcome={model.config.outcome!r} is not trained here, only one with 'one'")
    keep = inputs["keep"]
    hidden = model.hidden_states(inputs["tokens"], keep=keep, types=model.told_apart(inputs["types"]))
    loss, hits = cross_entropy_sum(model.classify(hidden, keep), inputs["label"], smoothing=smoothing)
    return LossSums({"loss": loss + unused_heads(model, hidden)}, {"loss": hits})


def last_token_class_loss(model: DecoderClassifier, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """The same of a decoder, which reads a text's class from its last token."""
    if model.config.outcome != "one":
        raise ValueError(f"a classifier with outcome={model.config.outcome!r} is not trained here, only one with 'one'")
    tokens, keep = inputs["tokens"], inputs["keep"]
    scores = model.classify(model.hidden_states(tokens, keep=keep), tokens, keep)
    loss, hits = cross_entropy_sum(scores, inputs["label"], smoothing=smoothing)
    return LossSums({"loss": loss}, {"loss": hits})


TEMPERATURE = 0.05


def contrastive_loss(model: SentenceEncoder, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """Both directions; pairs that share a text (`same`) are no negatives of one another."""
    if smoothing:
        raise ValueError(f"smoothing={smoothing:g} has no meaning for twins among negatives: leave it at 0")
    a, b, *others = (
        model.encode_row(inputs[f"tokens_{side}"][0], inputs[f"lengths_{side}"].tolist())
        for side in "abn"
        if f"tokens_{side}" in inputs
    )
    loss, hits = info_nce(a, b, inputs["same"], *others, own=inputs.get("own"))
    return LossSums({"loss": loss + unused_heads(model.encoder, a)}, {"loss": hits})


def info_nce(
    a: Float[Tensor, "B O"],
    b: Float[Tensor, "B O"],
    same: Bool[Tensor, "B B"],
    negatives: Float[Tensor, "N O"] | None = None,
    own: Bool[Tensor, "B N"] | None = None,
) -> tuple[Float[Tensor, ""], Tensor]:
    """The sum over the pairs, and how many texts `a` are nearest to their own twin (arXiv:1807.03748).

    Hard negatives, those of all pairs, stand beside the twins where `a` looks for its own (arXiv:2004.04906); `own`
    says which are none of a pair.
    """
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    scores = (a @ b.T / TEMPERATURE).masked_fill(same, -torch.inf)
    forth = scores
    if negatives is not None:
        hard = a @ F.normalize(negatives, dim=-1).T / TEMPERATURE
        forth = torch.cat([scores, hard if own is None else hard.masked_fill(own, -torch.inf)], -1)
    right = torch.arange(len(scores), device=scores.device)
    ways = [F.cross_entropy(way, right, reduction="sum") for way in (forth, scores.T)]
    return (ways[0] + ways[1]) / 2, (forth.argmax(-1) == right).sum()


def image_loss(model: Vision | DaViT, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> LossSums:
    """Σ -log p of the right classes."""
    hidden = model.hidden_states(inputs["images"])
    total, right = model.cross_entropy(hidden, inputs["label"], smoothing=smoothing)
    return LossSums({"loss": total}, {"loss": right})


def no_measures(row: dict[str, float]) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class TrainingSetup:
    """Everything but the order of steps."""

    config: TrainConfig
    model: Any
    objective: Objective
    train: Examples
    validation: Examples | None = None
    tokenizer: Tokenizer | None = None
    weights: dict[str, float] = field(default_factory=dict)  # of each loss; 1 where nothing is said
    unverified: dict[Path, FileHash] = field(default_factory=dict)  # files whose hashes are still to be compared
    reference: Any = None  # a second model that the objective looks at and that is not trained
    identity: str = ""  # of the data and the tokenizer: a resumed run says where it has changed
    measures: Callable[[dict[str, float]], dict[str, float]] = no_measures  # what else a validation's losses say
