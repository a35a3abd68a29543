"""A model and one input of it: what a user gives it, how it is called, and what each of its attentions is between."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from headway.look.record import Kind, Side
from headway.nn.modes import modes_kept

HINT = "give it something to read"


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """A text, perhaps with a second one; an image; or inputs as tensors, perhaps with a name for each token."""

    text: str | None = None
    pair: str | Sequence[int] | None = None  # numbers: of a target that is known by its tokens
    image: str | Path | None = None
    inputs: Tensor | Mapping[str, Any] | None = None
    tokens: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.inputs is not None and (self.text is not None or self.image is not None):
            raise ValueError("inputs= are what the model reads: leave the text and the image out")


def text_of(given: ModelInputs, title: str) -> str:
    """The text to read, or a refusal."""
    if given.image is not None:
        raise ValueError(f"{title} reads text, and an image was given: give a text")
    if given.text is None:
        raise ValueError(f"{title} reads text, and none was given: {HINT}")
    return given.text


def only_one(given: ModelInputs, title: str) -> None:
    """Refuse a second text where nothing reads it."""
    if given.pair is not None:
        raise ValueError(f"{title} reads one text: leave the pair out")


def check_length(count: int, limit: int | None, *, what: str, title: str) -> None:
    """Refuse no token at all, and more than a model has positions for."""
    if count == 0:
        raise ValueError(f"{what} has no token that {title} could read: {HINT}")
    if limit is not None and count > limit:
        raise ValueError(
            f"{what} has {count:,} tokens, and {title} has positions for {limit:,}: shorten it, or look at a part of it"
        )


def with_names(side: Side, tokens: Sequence[str] | None) -> Side:
    """The side with the names that the user has for its tokens."""
    if tokens is None:
        return side
    if len(tokens) != len(side.tokens):
        raise ValueError(f"there are {len(tokens)} names in tokens=, and the {side.name} has {len(side.tokens)} places")
    return replace(side, tokens=tuple(map(str, tokens)), words=())


@runtime_checkable
class AttentionInfo(Protocol):
    """What an attention says of itself."""

    @property
    def name(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int, int, int]: ...  # B H L M


class AttentionPlace(NamedTuple):
    """The kind of an attention, which side asks in it and which answers."""

    kind: Kind
    queries: int = 0
    keys: int = 0


@dataclass(frozen=True, eq=False)
class ModelSample:
    """Everything that is needed to run a model once and to say what its attentions are between."""

    title: str
    model: nn.Module
    sides: tuple[Side, ...]
    call: Callable[[], Any]  # runs every attention; what it gives is not looked at
    place: Callable[[AttentionInfo], AttentionPlace]
    logits: Callable[[], Tensor] | None = None  # of the next token (or of the hidden one) at each place of a side
    spoken: int = 0  # that side
    word: Callable[[int], str] = str  # a token of the vocabulary as text
    outputs: int = 0  # how many tokens it tells apart, where that is known
    notes: tuple[str, ...] = ()

    def run(self) -> Any:
        """One pass, in use (eval) and without gradients."""
        with at_rest(self.model):
            return self.call()

    def answer(self) -> Tensor:
        """The logits, in the same way."""
        assert self.logits is not None
        with at_rest(self.model):
            return self.logits()


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """In use (eval), without gradients; afterwards each part is in the mode that it had."""
    with modes_kept(model), torch.no_grad():
        model.eval()
        yield


EXTRA = ("[class]", "[distillation]")  # tokens before the patches of an image
SPARE = 16  # tokens beside the patches, at most: class tokens, registers


def positions(count: int) -> Side:
    """Places of which nothing is known but their number.

    >>> positions(3).tokens
    ('0', '1', '2')
    """
    return Side("positions", tuple(map(str, range(count))))


class Sides:
    """The sides of a sample, and those that its attentions need beside them."""

    def __init__(self, sample: ModelSample) -> None:
        self.sample, self.all = sample, list(sample.sides)
        self.met = frozenset[int]()  # sides that an attention has asked for

    def place(self, attention: AttentionInfo) -> AttentionPlace:
        """Where an attention belongs, with sides of its own sizes."""
        if attention.mechanism == "channel":
            channels = self._added(replace(positions(attention.shape[2]), name="channels"))
            return AttentionPlace("channels", channels, channels)
        said = self.sample.place(attention)
        queries = self._fitting(said.queries, attention.shape[2])
        return AttentionPlace(said.kind, queries, self._fitting(said.keys, attention.shape[3]))

    def _fitting(self, wanted: int, length: int) -> int:
        """The side that is wanted, or another that has as many places, or a new one of numbers."""
        if wanted < len(self.sample.sides):
            self.all[wanted] = self._counted(wanted, length)
        order = [wanted, *range(len(self.sample.sides))]
        found = next((at for at in order if at < len(self.all) and len(self.all[at].tokens) == length), None)
        return self._added(positions(length)) if found is None else found

    def _counted(self, wanted: int, length: int) -> Side:
        """The first attention says how many places vectors have: a sequence may stand before or behind the batch."""
        side = self.all[wanted]
        first, self.met = wanted not in self.met, self.met | {wanted}
        if first and side == positions(len(side.tokens)):
            return positions(length)
        return _with_extra(side, length)

    def _added(self, side: Side) -> int:
        if side not in self.all:
            self.all.append(side)
        return self.all.index(side)


def _with_extra(side: Side, length: int) -> Side:
    """Patches of a model that does not say how many tokens stand before them."""
    more = length - len(side.tokens)
    if side.grid is None or side.extra or not 0 < more <= SPARE:
        return side
    names = (EXTRA[0], *(f"[extra {number}]" for number in range(1, more)))
    return replace(side, tokens=(*names, *side.tokens), extra=more, special=tuple(range(more)))


def labels(
    model: nn.Module, attentions: Sequence[AttentionInfo], kinds: Sequence[str], *, all_of_them: bool
) -> list[str]:
    """ "0", "1", … within each kind; where only some were kept, as if all had been.

    Those that were left out are known by the names of their modules, which differ in numbers alone.
    """
    if not all_of_them:
        found = [_among(model, one.name) for one in attentions]
        if len(set(zip(kinds, found, strict=True))) == len(found):
            return found
    seen: Counter[str] = Counter()
    return [str(seen[kind] - 1) for kind in kinds if not seen.update([kind])]


def _among(model: nn.Module, name: str) -> str:
    alike = [other for other, _ in model.named_modules() if _alike(name.split("."), other.split("."))]
    return str(alike.index(name)) if name in alike else name


def _alike(one: list[str], other: list[str]) -> bool:
    """
    >>> _alike(["h", "0", "attn"], ["h", "7", "attn"]), _alike(["h", "0", "attn"], ["h", "0", "mlp"])
    (True, False)
    """
    if len(one) != len(other):
        return False
    return all(a == b or (a.isdigit() and b.isdigit()) for a, b in zip(one, other, strict=True))
