"""What a user gives a model to read, and the refusals that all kinds of models share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.look.record import Side

HINT = "give it something to read"


@dataclass(frozen=True, eq=False)
class Given:
    """A text, perhaps with a second one; an image; or inputs as tensors, perhaps with a name for each token."""

    text: str | None = None
    pair: str | Sequence[int] | None = None  # numbers: of a target that is known by its tokens
    image: str | Path | None = None
    inputs: Tensor | Mapping[str, Any] | None = None
    tokens: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.inputs is not None and (self.text is not None or self.image is not None):
            raise ValueError("inputs= are what the model reads: leave the text and the image out")


def text_of(given: Given, title: str) -> str:
    """The text to read, or a refusal."""
    if given.image is not None:
        raise ValueError(f"{title} reads text, and an image was given: give a text")
    if given.text is None:
        raise ValueError(f"{title} reads text, and none was given: {HINT}")
    return given.text


def only_one(given: Given, title: str) -> None:
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


def renamed(side: Side, tokens: Sequence[str] | None) -> Side:
    """The side with the names that the user has for its tokens."""
    if tokens is None:
        return side
    if len(tokens) != len(side.tokens):
        raise ValueError(f"there are {len(tokens)} names in tokens=, and the {side.name} has {len(side.tokens)} places")
    return replace(side, tokens=tuple(map(str, tokens)), words=())
