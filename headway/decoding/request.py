"""What is asked of a decoding loop, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field, field_validator
from torch import Tensor

from headway.config import Frozen, Size
from headway.ops.sampling.cut import TIE

Token = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
# A text whose end was forced on it at its last place is not ended but cut: "max_new_tokens", or "length" of the model.
Finish = Literal["end", "stop", "max_new_tokens", "length"]


def some(count: int, what: str) -> str:
    """A count and its noun.

    >>> some(1, "token"), some(2300, "token")
    ('1 token', '2300 tokens')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


class Request(Frozen):
    """A prompt and how to go on from it. Temperature 0 is greedy.

    Probabilities are cut by top_k, then top_p, then min_p; 0, 1 and 0 cut nothing. The repetition penalty is for every
    token that the decoder has read or produced. A draw depends on the seed and on the position of the token, and on
    nothing else: the same request gives the same tokens in any company, and two samples of one prompt need two seeds.
    `logprobs` asks for each token's log-probability under the model itself, and for so many of the likeliest beside it.

    >>> Request(prompt=(5, 7), temperature=-1)
    Traceback (most recent call last):
    ValueError: Request cannot take temperature=-1: input should be greater than or equal to 0
    """

    prompt: str | tuple[Token, ...]
    max_new_tokens: Size = 64
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    min_p: Fraction = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    stop_tokens: tuple[Token, ...] = ()
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    logprobs: Annotated[int, Field(ge=0)] | None = None

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_more(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given


class RequestOptions(TypedDict, total=False):
    """The options of a Request by name, for whoever asks without one."""

    max_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    stop: str | Sequence[str]
    stop_tokens: Sequence[int]
    seed: int
    logprobs: int | None


Prompt = str | Request | Sequence[int] | Tensor
Prompts = Sequence[str] | Sequence[Request] | Sequence[Sequence[int]] | Sequence[Tensor]


def as_requests(given: Any, options: dict[str, Any]) -> tuple[list[Request], bool]:
    """What is asked for, one request a prompt; and whether it was one prompt and no list of them.

    >>> as_requests("Once", {"max_new_tokens": 3})
    ([Request(prompt='Once', max_new_tokens=3)], True)
    >>> as_requests([[5, 7], [3]], {})[0]
    [Request(prompt=(5, 7)), Request(prompt=(3,))]
    """
    found = given.tolist() if isinstance(given, Tensor) else given
    if isinstance(found, str | Request) or (
        isinstance(found, Sequence) and len(found) and all(isinstance(one, int) for one in found)
    ):
        return [_request(found, options)], True
    if not isinstance(found, Sequence):
        raise ValueError(f"a prompt is a text, tokens or a Request, or a list of these; not a {type(given).__name__}")
    return [_request(one, options) for one in found], False


def _request(given: Any, options: dict[str, Any]) -> Request:
    if isinstance(given, Request):
        if options:
            raise ValueError(f"a Request says itself how to go on: put {min(options)} into it")
        return given
    if not isinstance(given, str | Sequence | Tensor):
        raise ValueError(f"a prompt is a text, tokens or a Request, not {given!r}")
    prompt = given if isinstance(given, str) else tuple(given.tolist() if isinstance(given, Tensor) else given)
    return Request(prompt=prompt, **options)


class NonFiniteLogits(ValueError):
    """A request whose logits are not numbers, so that nothing can be chosen.

    >>> str(NonFiniteLogits(3, float("nan")))
    "the model's largest logit for request 3 is nan: its weights or inputs are broken"
    """

    def __init__(self, request: int, value: float) -> None:
        super().__init__(
            f"the model's largest logit for request {request} is {value}: its weights or inputs are broken"
        )
        self.request, self.value = request, value


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of one request. Text may lag behind tokens: a character or a stop string may not be whole yet.

    `margin` is by how much the token was chosen: a lead in logits, or in probability the distance to another token.
    """

    request: int
    token: int
    text: str
    margin: float
    logprob: float | None = None
    likeliest: tuple[tuple[int, float], ...] = ()
    finish: Finish | None = None

    @property
    def tie(self) -> bool:
        """Whether float32 could have chosen otherwise."""
        return self.margin < TIE


@dataclass(frozen=True, slots=True)
class Generation:
    """All tokens of one request: with the one that ended it, which is not part of the text.

    `ties` are the indices of tokens that float32 could have chosen otherwise; `score` is of a beam search.
    """

    tokens: tuple[int, ...]
    text: str
    finish: Finish
    logprobs: tuple[float, ...] | None = None
    likeliest: tuple[tuple[tuple[int, float], ...], ...] = ()
    ties: tuple[int, ...] = ()
    score: float | None = None

    @classmethod
    def of(cls, events: list[TokenEvent]) -> "Generation":
        last = events[-1].finish
        assert last is not None
        logprobs = tuple(event.logprob for event in events if event.logprob is not None)
        return cls(
            tokens=tuple(event.token for event in events),
            text="".join(event.text for event in events),
            finish=last,
            logprobs=logprobs or None,
            likeliest=tuple(event.likeliest for event in events if event.likeliest),
            ties=tuple(place for place, event in enumerate(events) if event.tie),
        )
