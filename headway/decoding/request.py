"""What is asked of a decoding loop, and what it answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field, field_validator, model_validator
from torch import Tensor

from headway.config.generation import GenerationOptions, Token
from headway.data.chat import Message, check_messages
from headway.decoding.constraint import pattern_of
from headway.ops.sampling.cut import TIE

# A text whose end was forced on it at its last place is not ended but cut: "max_new_tokens", or "length" of the model.
Finish = Literal["end", "stop", "max_new_tokens", "length"]


def some(count: int, what: str) -> str:
    """A count and its noun.

    >>> some(1, "token"), some(2300, "token")
    ('1 token', '2300 tokens')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


class Request(GenerationOptions):
    """A prompt, or the messages of a conversation, and how to go on from it.

    A text ends before a `stop` string, and at one of the `stop_tokens`. A draw depends on the seed and on the position
    of the token, and on nothing else: the same request gives the same tokens in any company, and two samples of one
    prompt need two seeds. `logprobs` asks for each token's log-probability under the model itself, and for so many of
    the likeliest beside it. The whole text matches `regex`, or is JSON of a `json_schema`: only tokens whose bytes fit
    are chosen. `first_token` is the one that may come first, of a model that reads a source: the language to translate
    into, say. Messages are written by the model's chat template, which may ask for `tools` and other
    `template_variables`. What a request does not say, the model's generation_config.json may.

    >>> Request(prompt=(5, 7), temperature=-1)
    Traceback (most recent call last):
    ValueError: Request cannot take temperature=-1: input should be greater than or equal to 0
    """

    prompt: str | tuple[Token, ...] | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    template_variables: dict[str, Any] = Field(default_factory=dict)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    stop_tokens: tuple[Token, ...] = ()
    regex: str | None = None
    json_schema: dict[str, Any] | None = None
    first_token: Token | None = None
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    logprobs: Annotated[int, Field(ge=0)] | None = None

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_more(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("messages", mode="before")
    @classmethod
    def _a_conversation(cls, given: Any) -> Any:
        if given is not None:
            check_messages(given)
        return given

    @model_validator(mode="after")
    def _one_of_them(self) -> "Request":
        if (self.prompt is None) == (self.messages is None):
            which = "neither" if self.prompt is None else "both"
            raise ValueError(f"a Request has a prompt or messages, and this one has {which}")
        if self.regex is not None and self.json_schema is not None:
            raise ValueError("a text is to match a regex or a json_schema, and this Request has both")
        pattern_of(self.regex, self.json_schema)  # a mistake in it is said now
        if self.messages is None and (self.tools is not None or self.template_variables):
            raise ValueError("tools and template_variables are for a chat template: give messages, not a prompt")
        return self

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        return sorted(super().__repr_args__(), key=lambda pair: pair[0] not in ("prompt", "messages"))

    def completed(self, defaults: Mapping[str, Any]) -> "Request":
        """The same with a model's defaults where it says nothing; what was said is still told apart from them.

        >>> Request(prompt="Hi", top_k=5).completed({"temperature": 0.6, "top_k": 50})
        Request(prompt='Hi', temperature=0.6, top_k=5)
        """
        new = {name: value for name, value in defaults.items() if name not in self.model_fields_set}
        if not new:
            return self
        found = self.unchecked(**new)
        found.__pydantic_fields_set__.difference_update(new)
        return found


class RequestOptions(TypedDict, total=False):
    """The options of a Request by name, for whoever asks without one."""

    max_new_tokens: int
    min_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    logit_bias: Mapping[int, float]
    no_repeat_ngram_size: int
    tools: Sequence[Mapping[str, Any]]
    template_variables: Mapping[str, Any]
    stop: str | Sequence[str]
    stop_tokens: Sequence[int]
    regex: str
    json_schema: Mapping[str, Any]
    first_token: int | None
    seed: int
    logprobs: int | None


Chat = Sequence[Message]
Prompt = str | Request | Sequence[int] | Tensor | Chat
Prompts = Sequence[str] | Sequence[Request] | Sequence[Sequence[int]] | Sequence[Tensor] | Sequence[Chat]


def as_requests(given: Any, options: dict[str, Any]) -> tuple[list[Request], bool]:
    """What is asked for, one request a prompt; and whether it was one prompt and no list of them.

    >>> as_requests("Once", {"max_new_tokens": 3})
    ([Request(prompt='Once', max_new_tokens=3)], True)
    >>> as_requests([[5, 7], [3]], {})[0]
    [Request(prompt=(5, 7)), Request(prompt=(3,))]
    >>> as_requests([{"role": "user", "content": "Hi"}], {})[0]
    [Request(messages=({'role': 'user', 'content': 'Hi'},))]
    """
    found = given.tolist() if isinstance(given, Tensor) else given
    if isinstance(found, str | Request) or _is_one(found):
        return [_request(found, options)], True
    if not isinstance(found, Sequence):
        raise ValueError(f"a prompt is {PROMPTS}, or a list of these; not a {type(given).__name__}")
    return [_request(one, options) for one in found], False


PROMPTS = "a text, tokens, messages or a Request"


def _is_one(found: Any) -> bool:
    """Whether a sequence is one prompt: tokens, or the messages of one conversation."""
    if not isinstance(found, Sequence) or not len(found):
        return False
    return all(isinstance(one, int) for one in found) or isinstance(found[0], Mapping)


def _request(given: Any, options: dict[str, Any]) -> Request:
    if isinstance(given, Request):
        if options:
            raise ValueError(f"a Request says itself how to go on: put {min(options)} into it")
        return given
    found = given.tolist() if isinstance(given, Tensor) else given
    if isinstance(found, str):
        return Request(prompt=found, **options)
    if not isinstance(found, Sequence):
        raise ValueError(f"a prompt is {PROMPTS}, not {given!r}")
    what = "messages" if found and isinstance(found[0], Mapping) else "prompt"
    return Request(**{what: tuple(found)}, **options)


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

    @property
    def message(self) -> dict[str, str]:
        """The text as the model's turn of a conversation, to be appended to its messages."""
        return {"role": "assistant", "content": self.text}

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
