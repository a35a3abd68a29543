"""Prompts into a session: what differs between a language model and a model that reads a source, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config import Special
from headway.config.kinds import config_class, kinds_where
from headway.config.text import Forced
from headway.data.tokenizer import Tokenizer
from headway.decoding.request import Finish, Request, some
from headway.models.sessions import Session

Pad = Literal["left", "right", "none"]
PastLength = Literal["refuse", "stop", "slide"]
FREE = Forced()


@dataclass(frozen=True)
class Reader:
    """A model and how its prompts are read: padded on one side into one batch, or ("none") one by one."""

    model: Any
    tokenizer: Tokenizer | None = None
    pad: Pad = "left"
    cache: bool = True
    past_length: PastLength = "refuse"
    ignore_defaults: bool = False  # of the model's generation_config.json

    def __post_init__(self) -> None:
        if self.pad not in ("left", "right", "none"):
            raise ValueError(f"prompts are padded left, right or none, not {self.pad!r}")
        if self.past_length not in ("refuse", "stop", "slide"):
            raise ValueError(f"past its length a model can refuse, stop or slide, not {self.past_length!r}")
        if self.kind not in (kinds := kinds_where(lambda config: config.writes)):
            raise ValueError(f"a {self.kind} model does not generate text; {', '.join(kinds)} models do")
        if self.kind == "recurrent" and not self.cache:
            raise ValueError("a recurrent model has no other memory than its state: read it with cache=True")
        if self.reads_source and self.special.start is None:
            raise ValueError(f"this {self.kind} model's configuration has no special.start, the token to begin with")
        self._check_special()
        if self.past_length == "slide" and not self._slides():
            raise ValueError(
                "this model cannot slide past its length: that takes windows or running totals in every layer, and "
                "positions that are rotary or none"
            )
        if isinstance(self.model, nn.Module) and any(map(_drops, self.model.modules())):
            raise ValueError("this model is in training mode, with dropout: call model.eval() first")

    def _check_special(self) -> None:
        """Refuse tokens to begin, force or forbid that the model does not have."""
        said = {"forced first": self.forced.first, "forced last": self.forced.last}
        said |= {"start": self.special.start} if self.reads_source else {}
        for name, token in [*said.items(), *(("forbidden", token) for token in self.forced.never)]:
            if token is not None and not 0 <= token < self.words:
                raise ValueError(f"the {name} token {token} is outside of the model's vocabulary of {self.words}")

    @property
    def words(self) -> int:
        """How many tokens it can produce."""
        config = self.model.config
        return config.outputs if self.kind == "seq2seq" else config.vocabulary

    @property
    def kind(self) -> str:
        return self.model.config.kind

    @property
    def special(self) -> Special:
        return self.model.config.special

    @property
    def forced(self) -> Forced:
        return self.model.config.forced if self.kind == "seq2seq" else FREE

    def forced_of(self, request: Request) -> Forced:
        """What this request must or must not get: the model's rules, with its own first token."""
        if request.first_token is None:
            return self.forced
        if self.kind != "seq2seq":
            raise ValueError(f"first_token is for models that read a source; a {self.kind} model goes on from a prompt")
        if request.first_token >= self.words:
            raise ValueError(f"the first token {request.first_token} is outside of the vocabulary of {self.words}")
        return self.forced.replace(first=request.first_token)

    @property
    def reads_source(self) -> bool:
        return config_class(self.kind).reads == "source"

    @property
    def length(self) -> int | None:
        """How many tokens the decoder may have read and produced together; None: no limit."""
        return None if self.kind == "recurrent" or self.past_length == "slide" else self.model.config.length

    def prompt(self, request: Request) -> tuple[int, ...]:
        """The tokens to read: of a source, or of the text to be continued."""
        tokens = request.prompt if isinstance(request.prompt, tuple) else self._encoded(request)
        if not tokens and not self.reads_source and self.special.begin is not None:
            tokens = (self.special.begin,)
        if not tokens:
            raise ValueError(
                "the prompt is empty, and this model has no token to begin with: give it something to read"
            )
        config = self.model.config
        vocabulary = config.source_vocabulary if self.kind == "recurrent" else config.vocabulary
        if outside := [token for token in tokens if not 0 <= token < vocabulary]:
            raise ValueError(f"token {outside[0]} of the prompt is outside of the vocabulary of {vocabulary}")
        return tokens

    def _encoded(self, request: Request) -> tuple[int, ...]:
        if self.tokenizer is None:
            what = "messages need" if request.prompt is None else "a prompt of text needs"
            raise ValueError(f"{what} a tokenizer: give one, or a prompt of tokens")
        if isinstance(request.prompt, str):
            return tuple(self.tokenizer.encode(request.prompt))
        assert request.messages is not None
        return tuple(
            self.tokenizer.apply_chat_template(
                request.messages, tools=request.tools, variables=request.template_variables
            )
        )

    def ends(self, request: Request) -> frozenset[int]:
        """The tokens that end a text; a turn of a conversation ends with the tokenizer's own, too."""
        own = self.tokenizer.end if self.tokenizer is not None and request.messages is not None else None
        return frozenset(self.special.end).union([] if own is None else [own])

    def completed(self, request: Request) -> Request:
        """The request with the model's defaults for what it does not say."""
        defaults = None if self.ignore_defaults else getattr(self.model, "generation_defaults", None)
        return request if defaults is None else request.completed(defaults.options)

    def most(self, request: Request, prompt: tuple[int, ...]) -> tuple[int, Finish]:
        """How many tokens can follow, and what ends them; refuses what does not fit."""
        if self.length is None:
            return request.max_new_tokens, "max_new_tokens"
        if self.reads_source and len(prompt) > self.length:
            raise ValueError(
                f"a source of {some(len(prompt), 'token')} is longer than the model's {self.length} positions"
            )
        read = 1 if self.reads_source else len(prompt)
        room = self.length - read
        if room < 1:
            raise ValueError(f"a prompt of {some(read, 'token')} leaves no room in the model's {self.length} positions")
        if request.max_new_tokens <= room:
            return request.max_new_tokens, "max_new_tokens"
        if self.past_length == "refuse" and "max_new_tokens" in request.model_fields_set:
            raise ValueError(
                f"{some(read, 'token')} and max_new_tokens={request.max_new_tokens} more do not fit into the model's "
                f'{self.length} positions: ask for at most {room}, or choose past_length="stop"'
            )
        return room, "length"

    def open(self, prompts: Sequence[tuple[int, ...]], most: int) -> tuple[Session, Float[Tensor, "B V"]]:
        """A session that has read the prompts, with room for `most` more tokens, and the logits of what follows."""
        # Past the first thousand a cache makes room for itself: nobody should pay for a limit that is never reached.
        capacity = (1 if self.reads_source else max(map(len, prompts))) + min(most, 1024)
        if self.pad != "none" or len(prompts) == 1:
            return self._read(prompts, capacity)
        parts = [self._read([prompt], capacity) for prompt in prompts]
        session = parts[0][0]
        for other, _ in parts[1:]:
            session.join(other)
        return session, torch.cat([logits for _, logits in parts])

    def _read(self, prompts: Sequence[tuple[int, ...]], capacity: int) -> tuple[Session, Float[Tensor, "B V"]]:
        device = next(self.model.parameters()).device
        tokens, keep = padded(prompts, left=self.pad == "left", device=device)
        if not self.reads_source:
            session = self.model.session(capacity=capacity, cache=self.cache)
            return session, session.read(tokens, keep)
        options = {} if self.kind == "recurrent" else {"capacity": capacity, "cache": self.cache}
        session = self.model.session(tokens, keep=keep, **options)
        return session, session.read(torch.tensor([[self.special.start]] * len(prompts), device=device))

    def _slides(self) -> bool:
        if not self.reads_source:
            return self.model.session().room is None
        return self.kind == "recurrent"


def padded(
    prompts: Sequence[tuple[int, ...]], *, left: bool, device: torch.device | None = None
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"] | None]:
    """Prompts as one tensor, and which of its tokens are real; None where all are.

    >>> padded([(5, 7), (3,)], left=True)
    (tensor([[5, 7],
            [0, 3]]), tensor([[ True,  True],
            [False,  True]]))
    """
    length = max(map(len, prompts))
    blanks = [(0,) * (length - len(prompt)) for prompt in prompts]
    rows = [blank + prompt if left else prompt + blank for prompt, blank in zip(prompts, blanks, strict=True)]
    if not any(blanks):
        return torch.tensor(rows, device=device), None
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)[:, None]
    places = torch.arange(length, device=device)
    return torch.tensor(rows, device=device), places >= length - lengths if left else places < lengths


def _drops(part: nn.Module) -> bool:
    return isinstance(part, nn.Dropout) and part.training and part.p > 0
