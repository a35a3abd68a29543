"""How tokens are chosen: what a request asks for, and what a model's generation_config.json suggests. No torch."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from headway.config.base import Finite, Frozen, Size
from headway.config.size_limits import NEW_TOKENS, check_size

Token = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class GenerationOptions(Frozen):
    """How a text goes on. Temperature 0 is greedy.

    Probabilities are cut by top_k, then top_p, then min_p; 0, 1 and 0 cut nothing. The repetition penalty divides the
    logit of every token that the decoder has read or produced; the frequency penalty is subtracted for each time that
    a token was produced, the presence penalty once. `logit_bias` is added to logits by their tokens: -inf forbids one.
    Before `min_new_tokens` no token ends the text. No run of `no_repeat_ngram_size` tokens comes twice in what is read
    and produced (0: any may).
    """

    max_new_tokens: Size = 64
    min_new_tokens: Count = 0
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    top_k: Count = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    min_p: Fraction = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    frequency_penalty: Finite = 0.0
    presence_penalty: Finite = 0.0
    logit_bias: dict[Token, float] = Field(default_factory=dict)
    no_repeat_ngram_size: Count = 0

    @field_validator("max_new_tokens")
    @classmethod
    def _of_a_length(cls, given: int) -> int:
        return check_size(given, NEW_TOKENS, "a text that is written")

    @field_validator("logit_bias")
    @classmethod
    def _numbers(cls, given: dict[int, float]) -> dict[int, float]:
        for token, value in given.items():
            if math.isnan(value) or value == math.inf:
                raise ValueError(f"the logit_bias of token {token} is a number, or -inf to forbid it; not {value}")
        return given

    @model_validator(mode="after")
    def _agree(self) -> "GenerationOptions":
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens={self.min_new_tokens} is more than max_new_tokens={self.max_new_tokens}: "
                "no text could be written"
            )
        return self


# Their word -> the setting with which it changes nothing.
NEUTRAL_SETTINGS: dict[str, Any] = {
    "num_beams": 1, "num_beam_groups": 1, "length_penalty": 1.0, "early_stopping": False, "min_length": 0,
    "max_new_tokens": None, "min_new_tokens": None, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "diversity_penalty": 0.0, "penalty_alpha": None,
    "suppress_tokens": None, "begin_suppress_tokens": None, "forced_decoder_ids": None, "sequence_bias": None,
    "guidance_scale": None, "exponential_decay_length_penalty": None, "renormalize_logits": False, "do_sample": False,
}  # fmt: skip
NEUTRAL_SAMPLING: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": 1.0, "min_p": None, "typical_p": 1.0}
# Those that have the same name and meaning here.
FOLLOWED = (
    "max_new_tokens", "min_new_tokens", "top_k", "top_p", "min_p", "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip


class GenerationDefaults(Frozen):
    """What a generation_config.json suggests: `options` are followed where a request says nothing, `ignored` are not.

    `said` is the file as it was read. Of settings that change nothing there is no word in either.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    said: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def read(cls, said: Mapping[str, Any], *, source: bool = False) -> "GenerationDefaults":
        """In our words. `source`: of a model that reads one, whose decoder has read one token when it begins.

        How to draw matters only to those who draw; who sets no temperature draws at 1.

        >>> GenerationDefaults.read({"do_sample": True, "top_p": 0.9, "num_beams": 4}).options
        {'top_p': 0.9, 'temperature': 1.0}
        >>> GenerationDefaults.read({"num_beams": 4, "temperature": 0.6, "top_p": 1.7}).ignored
        ('num_beams=4',)
        """
        named = settings_of(said)
        found = {name: named[name] for name in FOLLOWED if name in named}
        if said.get("do_sample"):
            found["temperature"] = said.get("temperature") or 1.0
        if named.get("suppress_tokens"):
            found["logit_bias"] = dict.fromkeys(named["suppress_tokens"], -math.inf)
        if source:
            lengths = (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens"))
            found |= {ours: said[theirs] - 1 for theirs, ours in lengths if said.get(theirs) and ours not in found}
        options = {name: read for name, value in found.items() for read in _as_asked(name, value)}
        followed = {*options, "do_sample", *(("min_length",) if source else ())}
        followed |= {"suppress_tokens"} if "logit_bias" in options else set()
        ignored = tuple(f"{name}={value}" for name, value in named.items() if name not in followed)
        return cls(options=options, ignored=ignored, said=dict(said))

    @property
    def followed(self) -> tuple[str, ...]:
        """The options as a line has them."""
        return tuple(
            f"{name} of {len(value)} tokens" if isinstance(value, dict) else f"{name}={value}"
            for name, value in self.options.items()
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Every setting that would change what is decoded, followed or not, in the words of the file."""
        return tuple(f"{name}={value}" for name, value in settings_of(self.said).items())


def settings_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """Each setting that changes what is decoded."""
    plain = NEUTRAL_SETTINGS | (NEUTRAL_SAMPLING if said.get("do_sample") else {})
    return {key: said[key] for key, value in plain.items() if said.get(key, value) not in (value, None, [])}


def _as_asked(name: str, value: Any) -> tuple[Any, ...]:
    """The value as a request has it, or nothing where none could ask for it: a file may say anything."""
    try:
        return (getattr(GenerationOptions(**{"max_new_tokens": NEW_TOKENS, name: value}), name),)
    except ValueError:
        return ()
