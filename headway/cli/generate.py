"""`headway generate`: text from a model on disk."""

import json as json_format
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import at_least_one, load_model, say, stdin_text, utf8


@Parameter(name="*")
@dataclass(frozen=True)
class Choosing:
    """How tokens are chosen; the names are those of headway.Request."""

    max_new_tokens: Annotated[int, Parameter(alias="--max-tokens")] = 64
    "Tokens to produce at most, for each prompt."
    temperature: float = 0.0
    "0 takes the likeliest token; above, tokens are drawn, the more evenly the higher."
    top_k: int = 0
    "Draw among so many of the likeliest; 0: all."
    top_p: float = 1.0
    "Draw among the likeliest that together have this probability."
    min_p: float = 0.0
    "Draw among those at least this fraction as likely as the likeliest."
    repetition_penalty: float = 1.0
    "Above 1, tokens that have occurred are less likely."
    stop: Annotated[list[str], Parameter(negative="", allow_leading_hyphen=True)] = field(default_factory=list)
    "End before this text; may be given several times."
    seed: int = 0
    "Seed of the draws; the same for every prompt, so that each gets what it gets alone."
    logprobs: int | None = None
    "With --json, the log-probability of every token, and of so many of the likeliest."


def generate(
    directory: str,
    /,
    *,
    prompt: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = None,
    choosing: Choosing = Choosing(),
    beam: int | None = None,
    length_penalty: float = 1.0,
    past_length: Literal["refuse", "stop", "slide"] = "refuse",
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Continue a text, or answer a source, with a model on disk.

    Text is written as it comes, without the prompt. Several prompts are
    decoded together and written one after the other, each followed by a new
    line; what one of them gets does not depend on the others. The receipt of
    the load is on stderr, and so are ties: tokens chosen by so little that
    float32 could choose otherwise in another batch.

    For example:

        headway generate gpt2/ --prompt "Once upon a time" --max-new-tokens 50
        headway generate gpt2/ --prompt Yes --prompt No --temperature 0.8
        echo "Guten Morgen" | headway generate opus-mt-de-en/ --beam 4 --json

    Parameters
    ----------
    directory
        The model: a run, a directory with config.json, model.safetensors and tokenizer.json, or package.module:function
        that makes a module and its tokenizer.
    prompt
        Text to go on from; may be given several times. Without it, or for `-`, all of stdin less its last line break.
    beam
        Search for the text of the highest score with so many beams, instead of choosing token by token.
    length_penalty
        Beam search: the score is the log-probability divided by length to this power.
    past_length
        Refuse what does not fit into the model, stop there, or slide on where the model allows it.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    json
        One list with texts, tokens and why each ended, at the end.
    """
    _check(choosing, beam, json=json)
    prompts = _read(prompt or ["-"])
    try:
        results = _results(directory, prompts, choosing, beam, length_penalty, past_length, dtype, json)
    except ValueError as error:
        raise ValueError(spoken(error)) from error
    if json:
        rows = [_row(text, result) for text, result in zip(prompts, results, strict=True)]
        print(json_format.dumps(rows, indent=2, ensure_ascii=False))
    return 0


def _check(choosing: Choosing, beam: int | None, *, json: bool) -> None:
    """What can be refused without a look at the model."""
    if choosing.logprobs is not None and not json:
        raise ValueError("--logprobs are written with --json alone: add --json")
    for text in choosing.stop:
        utf8(text, "--stop")
    if beam is None:
        return
    at_least_one(beam=beam)
    usual = asdict(Choosing())
    for name, value in asdict(choosing).items():
        if value != usual[name] and name not in ("max_new_tokens", "seed"):
            raise ValueError(f"--beam chooses by score alone: leave out {_option(name)}")


def _read(prompts: list[str]) -> list[str]:
    """The texts of the prompts; `-` is stdin, which can be read once."""
    if prompts.count("-") > 1:
        raise ValueError(f"--prompt - is given {prompts.count('-')} times, and stdin can be read once")
    return [
        stdin_text("the prompt", "a --prompt")
        if text == "-"
        else utf8(text, f"prompt {number}" if len(prompts) > 1 else "the prompt")
        for number, text in enumerate(prompts, 1)
    ]


def spoken(error: ValueError) -> str:
    """A sentence of the library in the words of the command line.

    >>> spoken(ValueError("Request cannot take top_p=2.0: input should be less than or equal to 1"))
    '--top-p cannot be 2.0: input should be less than or equal to 1'
    >>> spoken(ValueError('5 tokens and max_new_tokens=80 more do not fit: choose past_length="stop"'))
    '5 tokens and --max-new-tokens 80 more do not fit: choose --past-length stop'
    """
    from headway.decoding import NonFiniteLogits

    if isinstance(error, NonFiniteLogits):
        return str(error).replace(f"request {error.request}", f"prompt {error.request + 1}")
    text = re.sub(r"^Request cannot take (\w+)=", lambda found: f"{_option(found[1])} cannot be ", str(error))
    return re.sub(r'\b(max_new_tokens|past_length)="?(\w+)"?', lambda found: f"{_option(found[1])} {found[2]}", text)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _generates(path: str, kind: str) -> None:
    from headway.config.kinds import kinds_where

    if kind not in (known := kinds_where(lambda config: config.writes)):
        raise ValueError(f"{path} holds a {kind} model, which does not generate text; {', '.join(known)} models do")


def _results(
    directory: str,
    prompts: list[str],
    choosing: Choosing,
    beam: int | None,
    length_penalty: float,
    past_length: str,
    dtype: str | None,
    json: bool,
) -> list:
    from headway.decoding import Request

    requests = [Request(prompt=text, **asdict(choosing)) for text in prompts]
    model, tokenizer, receipt = load_model(directory, dtype, beam, _generates)
    say(str(receipt))
    options = {"tokenizer": tokenizer, "past_length": past_length}
    if beam is None:
        return _streamed(model, requests, options, silent=json)
    return _searched(model, requests, options | {"beams": beam, "alpha": length_penalty}, silent=json)


def _streamed(model: Any, requests: list, options: dict[str, Any], *, silent: bool) -> list:
    from headway.decoding import Generation, stream

    found: list[list] = [[] for _ in requests]

    def events() -> Iterator:
        for event in stream(model, requests, **options):
            found[event.request].append(event)
            yield event

    for text in in_turn(events()):
        if not silent:
            print(text, end="", flush=True)
    results = [Generation.of(one) for one in found]
    for number, result in enumerate(results, 1):
        _finish(number, result)
    return results


def _searched(model: Any, requests: list, options: dict[str, Any], *, silent: bool) -> list:
    from headway.decoding import beam

    results = [found[0] for found in beam(model, requests, **options)]
    for number, result in enumerate(results, 1):
        if not silent:
            print(result.text)
        _finish(number, result)
    return results


def in_turn(events: Iterator) -> Iterator[str]:
    """Pieces of text, one request after the other: what comes before its turn waits."""
    waiting: dict[int, list[str]] = {}
    finished: set[int] = set()
    turn = 0
    for event in events:
        waiting.setdefault(event.request, []).append(event.text)
        finished.update([event.request] if event.finish else [])
        while turn in waiting:
            yield "".join(waiting.pop(turn))
            if turn not in finished:
                break
            yield "\n"
            turn += 1


def _finish(number: int, result: Any) -> None:
    from headway.decoding.request import some

    ties = f", ties at {', '.join(str(place + 1) for place in result.ties)}" if result.ties else ""
    say(f"prompt {number}: {some(len(result.tokens), 'token')}, ended by {result.finish}{ties}")


def _row(prompt: str, result: Any) -> dict[str, Any]:
    row = {"prompt": prompt, **asdict(result)}
    return {name: value for name, value in row.items() if value is not None and (value or name != "likeliest")}
