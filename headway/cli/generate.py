"""`headway generate`: text from a model on disk."""

import json as json_format
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.chat import read_conversations
from headway.cli.common import Weights, at_least_one, load_model, say, stdin_text, utf8
from headway.config.read_file import parse_json, read_json
from headway.config.size_limits import SAMPLES, check_size

Texts = Annotated[list[str], Parameter(negative="", allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True)
class Choosing:
    """How tokens are chosen; the names are those of headway.Request. What is not given, the model may suggest."""

    max_new_tokens: Annotated[int | None, Parameter(alias="--max-tokens")] = None
    "Tokens to produce at most, for each prompt; 64 where neither you nor the model's generation_config.json says."
    min_new_tokens: int | None = None
    "Tokens before which the text does not end."
    temperature: float | None = None
    "0 (the default) takes the likeliest token; above, tokens are drawn, the more evenly the higher."
    top_k: int | None = None
    "Draw among so many of the likeliest; 0: all."
    top_p: float | None = None
    "Draw among the likeliest that together have this probability."
    min_p: float | None = None
    "Draw among those at least this fraction as likely as the likeliest."
    repetition_penalty: float | None = None
    "Above 1, tokens that have occurred are less likely."
    frequency_penalty: float | None = None
    "Taken from a token's logit for each time that it was produced."
    presence_penalty: float | None = None
    "Taken from a token's logit once it was produced."
    no_repeat_ngram_size: int | None = None
    "No run of so many tokens comes twice."
    logit_bias: Texts = field(default_factory=list)
    "TOKEN=NUMBER, added to the logit of a token (-inf forbids it); may be given several times."
    stop: Texts = field(default_factory=list)
    "End before this text; may be given several times."
    regex: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    "The whole text matches this regular expression, in Python's syntax."
    json_schema: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    "The whole text is JSON of this schema: a file, or the schema itself."
    seed: int = 0
    "Seed of the draws; the same for every prompt, so that each gets what it gets alone."
    logprobs: int | None = None
    "With --json, the log-probability of every token, and of so many of the likeliest."

    def options(self) -> dict[str, Any]:
        """What was given, in the words of a Request."""
        given = asdict(self) | {
            "logit_bias": dict(map(_bias, self.logit_bias)),
            "json_schema": None if self.json_schema is None else _schema(self.json_schema),
        }
        return {name: value for name, value in given.items() if value is not None and value not in ([], {})}


def _bias(text: str) -> tuple[int, float]:
    """
    >>> _bias("50=-inf")
    (50, -inf)
    """
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise ValueError(f"--logit-bias is TOKEN=NUMBER, such as 50=-inf, not {text!r}") from None


def _schema(given: str) -> Any:
    """
    >>> _schema('{"type": "integer"}')
    {'type': 'integer'}
    """
    found = parse_json(given, "--json-schema") if given.lstrip().startswith("{") else read_json(Path(given))
    if not isinstance(found, dict):
        raise ValueError(f"--json-schema is an object in JSON, not {given[:40]!r}")
    return found


@Parameter(name="*")
@dataclass(frozen=True)
class Chatting:
    """Conversations; what is in them is written by the model's chat template."""

    chat: Annotated[bool, Parameter(negative="")] = False
    "Each prompt is a message to the model, and the text is its answer; on a terminal, without --prompt, turn by turn."
    system: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    "With --chat, what the model is told before the first message."
    messages: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None
    "A JSON file with the messages of a conversation, or a list of several; `-` is stdin."


def generate(
    directory: str,
    /,
    *,
    prompt: Annotated[list[str] | None, Parameter(negative="", allow_leading_hyphen=True)] = None,
    chatting: Chatting = Chatting(),
    choosing: Choosing = Choosing(),
    n: int = 1,
    beam: int | None = None,
    length_penalty: float = 1.0,
    past_length: Literal["refuse", "stop", "slide"] = "refuse",
    ignore_defaults: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    adapter: Annotated[list[str] | None, Parameter(negative="")] = None,
    draft: str | None = None,
    draft_tokens: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    force: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Continue a text, answer a message or a source, with a model on disk.

    Text is written as it comes, without the prompt. Several prompts are
    decoded together and written one after the other, each followed by a new
    line; what one of them gets does not depend on the others. The receipt of
    the load is on stderr, and so are ties: tokens chosen by so little that
    float32 could choose otherwise in another batch.

    For example:

        headway generate gpt2/ --prompt "Once upon a time" --max-new-tokens 50
        headway generate gpt2/ --prompt Yes --prompt No --temperature 0.8 --n 3
        headway generate HuggingFaceTB/SmolLM2-135M-Instruct --chat
        headway generate models/smollm2 --adapter runs/tuned --prompt "Hello"
        headway generate models/smollm2 --prompt "$(cat letter.txt)" --draft prompt
        echo "Guten Morgen" | headway generate opus-mt-de-en/ --beam 4 --json

    Parameters
    ----------
    directory
        The model: a run, a directory with config.json, model.safetensors and tokenizer.json, a GGUF file, a model of a
        hub (org/name, or org/name@revision), or package.module:function that makes a module and its tokenizer.
    prompt
        Text to go on from; may be given several times. Without it, or for `-`, all of stdin less its last line break.
    n
        Samples of each prompt, drawn with the seeds SEED, SEED + 1 and on.
    beam
        Search for the text of the highest score with so many beams, instead of choosing token by token.
    length_penalty
        Beam search: the score is the log-probability divided by length to this power.
    past_length
        Refuse what does not fit into the model, stop there, or slide on where the model allows it.
    ignore_defaults
        Do not follow what the model's generation_config.json suggests for options that are not given.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    adapter
        Add an adapter to the weights: a run with lora.rank, or a directory in the layout of the library peft. Given
        several times, every prompt is answered with each adapter in turn; the model is loaded once.
    draft
        What proposes tokens, which the model then reads at once: `prompt` (what followed in the text before), or a
        smaller model with the same vocabulary. The text stays the same; where proposals are right it comes sooner.
    draft_tokens
        Tokens that the draft proposes at a time, at most; 8 by default.
    json
        One list with texts, tokens and why each ended, at the end.
    force
        Try sizes that are refused because this machine cannot hold them, or nobody could wait for them.
    """
    _check(choosing, chatting, prompt, beam, n, json=json)
    if beam is not None and (draft is not None or draft_tokens is not None):
        raise ValueError("--beam searches without proposals: leave out --draft and --draft-tokens")
    from headway.decoding.beam import Beams  # torch takes seconds to import

    Beams(alpha=length_penalty)  # refused without a beam, too
    options: dict[str, Any] = {"past_length": past_length, "ignore_defaults": ignore_defaults}
    if beam is None:
        options |= {"draft": draft, "draft_tokens": draft_tokens}
    adapters = adapter or []
    several = [] if len(adapters) < 2 else adapters
    load = partial(load_model, directory, dtype, weights, beam, _generates, adapters[0] if len(adapters) == 1 else None)
    if several and weights is not None:
        raise ValueError(f"adapters are switched on floating-point weights: leave --weights {weights} out")
    if chatting.chat and prompt is None and chatting.messages is None and not json and sys.stdin and sys.stdin.isatty():
        if several:
            raise ValueError("a conversation has one adapter: give --adapter once, or a --prompt")
        return _talk(load, chatting.system, choosing.options(), options)
    prompts = _prompts(prompt or ["-"], chatting)
    try:
        results = _results(load, prompts, choosing, options, (n, beam, length_penalty), json, several)
    except ValueError as error:
        raise ValueError(spoken(error)) from error
    if json:
        named = [{"adapter": one} for one in several] or [{}]
        numbered = [({**name, **one}, i) for name in named for one in prompts for i in range(n)]
        rows = [_row(*one, n, result) for one, result in zip(numbered, results, strict=True)]
        print(json_format.dumps(rows, indent=2, ensure_ascii=False))
    return 0


def _check(
    choosing: Choosing, chatting: Chatting, prompt: list[str] | None, beam: int | None, n: int, *, json: bool
) -> None:
    """What can be refused without a look at the model."""
    at_least_one(n=n, beam=beam)
    check_size(n, SAMPLES, "the list of a prompt's samples")
    if choosing.logprobs is not None and not json:
        raise ValueError("--logprobs are written with --json alone: add --json")
    for text in choosing.stop:
        utf8(text, "--stop")
    if chatting.messages is not None and (prompt or chatting.chat or chatting.system is not None):
        raise ValueError("--messages hold a whole conversation: leave out --prompt, --chat and --system")
    if chatting.system is not None and not chatting.chat:
        raise ValueError("--system is the first message of a conversation: add --chat")
    if beam is None:
        return
    for name in choosing.options():
        if name not in ("max_new_tokens", "seed"):
            raise ValueError(f"--beam chooses by score alone: leave out {_option(name)}")
    if n > 1:
        raise ValueError("--beam finds one text for each prompt: leave out --n")


def _prompts(prompts: list[str], chatting: Chatting) -> list[dict[str, Any]]:
    """What each request is of, in its own words: a prompt or messages."""
    if chatting.messages is not None:
        return [{"messages": one} for one in read_conversations(chatting.messages)]
    texts = _read(prompts)
    if not chatting.chat:
        return [{"prompt": text} for text in texts]
    first = [] if chatting.system is None else [{"role": "system", "content": utf8(chatting.system, "--system")}]
    return [{"messages": [*first, {"role": "user", "content": text}]} for text in texts]


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
    names = "max_new_tokens|min_new_tokens|past_length|draft_tokens|draft"
    return re.sub(rf'\b({names})="?(\w+)"?', lambda found: f"{_option(found[1])} {found[2]}", text)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _generates(path: str, kind: str) -> None:
    from headway.config.kinds import kinds_where

    if kind not in (known := kinds_where(lambda config: config.writes)):
        raise ValueError(f"{path} holds a {kind} model, which does not generate text; {', '.join(known)} models do")


def _talk(load: Any, system: str | None, choosing: dict[str, Any], options: dict[str, Any]) -> int:
    from headway.cli.chat import Conversation
    from headway.decoding import Request

    first = [] if system is None else [{"role": "system", "content": utf8(system, "--system")}]
    Request(prompt="", **choosing)  # a mistake is said before the model is loaded
    model, tokenizer, receipt = load()
    say(str(receipt))
    return Conversation(model, {"tokenizer": tokenizer, **options}, choosing, first, say=_finish).run()


def _results(
    load: Any,
    prompts: list[dict[str, Any]],
    choosing: Choosing,
    options: dict[str, Any],
    search: tuple[int, int | None, float],
    json: bool,
    adapters: Sequence[str],
) -> list:
    from headway.decoding import Request
    from headway.hub.load import switch_adapter

    requests = [Request(**one, **choosing.options()) for one in prompts]
    model, tokenizer, receipt = load()
    say(str(receipt))
    n, beam, length_penalty = search
    if beam is not None:
        options = {name: value for name, value in options.items() if name != "ignore_defaults"}
        options |= {"beams": beam, "alpha": length_penalty}

    def results() -> list:
        reading = {**options, "tokenizer": model.tokenizer if adapters else tokenizer}
        if beam is None:
            return _streamed(model, requests, n, reading, silent=json)
        return _searched(model, requests, reading, silent=json)

    found = [] if adapters else results()
    for one in adapters:
        say(str(switch_adapter(model, one)))
        found += results()
    return found


def _streamed(model: Any, requests: list, n: int, options: dict[str, Any], *, silent: bool) -> list:
    from headway.decoding import Generation, stream

    made = stream(model, requests, n=n, **options)  # which refuses what cannot be asked for
    found: list[list] = [[] for _ in range(len(requests) * n)]

    def events() -> Iterator:
        for event in made:
            found[event.request].append(event)
            yield event

    for text in in_turn(events()):
        if not silent:
            print(text, end="", flush=True)
    results = [Generation.of(one) for one in found]
    for place, result in enumerate(results):
        say(_finish(f"prompt {place // n + 1}" + (f", sample {place % n + 1}" if n > 1 else ""), result))
    return results


def _searched(model: Any, requests: list, options: dict[str, Any], *, silent: bool) -> list:
    from headway.decoding import beam

    results = [found[0] for found in beam(model, requests, **options)]
    for number, result in enumerate(results, 1):
        if not silent:
            print(result.text)
        say(_finish(f"prompt {number}", result))
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


def _finish(which: str, result: Any) -> str:
    from headway.decoding.request import some

    ties = f", ties at {', '.join(str(place + 1) for place in result.ties)}" if result.ties else ""
    return f"{which}: {some(len(result.tokens), 'token')}, ended by {result.finish}{ties}"


def _row(asked: dict[str, Any], sample: int, n: int, result: Any) -> dict[str, Any]:
    row = {**asked, **({"sample": sample} if n > 1 else {}), **asdict(result)}
    return {name: value for name, value in row.items() if value is not None and (value or name != "likeliest")}
