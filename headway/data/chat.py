"""Conversations to one text: the model's own template, in Jinja's language, run in a sandbox.

A template sees `messages`, `tools`, `add_generation_prompt`, the special tokens by name, `raise_exception`,
`strftime_now` and a `tojson` that escapes no HTML, as in Hugging Face's library. What stands between `{% generation %}`
and `{% endgeneration %}` was written by the model: `answers` are the places of it in the text.

A special token that is spelt out in a message is text: whoever writes a message cannot end a turn with it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
from jinja2 import nodes
from tokenizers import Tokenizer as Engine

from headway.data.template_sandbox import LimitedEnvironment, limited

Message = Mapping[str, Any]
# Code points that are no characters, so that no text has them: around the number of a special token that a message
# spells out, and around what stands between the tags.
OPENS, CLOSES, BEGINS, ENDS = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_HIDDEN = re.compile(f"{OPENS}(\\d+){CLOSES}")
_TAGS = re.compile(f"([{BEGINS}{ENDS}])")
_MARKS = re.compile(f"[{OPENS}{CLOSES}{BEGINS}{ENDS}]")


@dataclass(frozen=True)
class ChatText:
    """A conversation as one text, and from where to where the template says that the model wrote it."""

    text: str
    answers: tuple[tuple[int, int], ...] = ()


class _Generation(jinja2.ext.Extension):
    """The tag around what the model wrote."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own way)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("note"), [], [], body).set_lineno(line)

    def note(self, caller: Callable[[], str]) -> str:
        """The text between the tags, marked; `_placed` takes the marks off."""
        return f"{BEGINS}{caller()}{ENDS}"


class _Namespace(jinja2.utils.Namespace):
    """Jinja's own, without names by which a template would reach Python's internals."""

    def __init__(*given: Any, **named: Any) -> None:
        values = dict(*given[1:], **named)
        for name in values:
            _check_name(name)
        jinja2.utils.Namespace.__init__(given[0], values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a chat template may not set {name!r}")


def _mapping(*given: Any, **named: Any) -> dict[Any, Any]:
    return dict(*given, **named)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(sentence: str) -> None:
    raise jinja2.TemplateError(sentence)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


@lru_cache(maxsize=32)
def _compiled(template: str) -> jinja2.Template:
    environment = LimitedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now, "dict": _mapping, "namespace": _Namespace}
    try:
        return environment.from_string(template)
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template is not in Jinja's language: {error}") from None


def render_chat(
    template: str,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    variables: Mapping[str, Any] | None = None,
    hidden: "SpelledOut | None" = None,
) -> ChatText:
    """What the template makes of a conversation; with `add_generation_prompt` the model's next turn begins at its end.

    `variables` are the special tokens by name and whatever else the template asks for. Special tokens that messages
    spell out stay `hidden` in the text, where that is given.

    >>> render_chat("{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}",
    ...             [{"role": "user", "content": "Hi"}]).text
    'user: Hi\\n'
    """
    check_messages(messages)
    # An empty field is left out: clients send it for what a message does not have.
    kept = [{key: value for key, value in message.items() if value is not None} for message in messages]
    given = _plain({"messages": kept, "tools": tools})
    compiled = _compiled(template)
    try:
        text = limited(
            lambda: compiled.render(
                **given if hidden is None else hidden.hide(given),
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **variables or {},
            )
        )
    except jinja2.UndefinedError as error:
        raise ValueError(f"the chat template needs something that these messages do not have: {error}") from None
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template refuses these messages: {error}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError, AttributeError) as error:
        raise ValueError(f"the chat template cannot read these messages: {error}") from None
    return _placed(text)


def check_messages(messages: Any) -> None:
    """Refuse what is no conversation, in one sentence."""
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence) or not messages:
        raise ValueError(f"messages are a list of at least one {_LIKE}, not {messages!r:.80}")
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"a message is {_LIKE}, not {message!r:.80}")


_LIKE = '{"role": "user", "content": "..."}'


def _plain(value: Any) -> Any:
    """The same of JSON's own types: a template is somebody else's program, and gets no other object to call.

    Marks are taken out, so that no message can set one.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _MARKS.sub("", value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    raise ValueError(f"a message holds texts, numbers, lists and objects, not a {type(value).__name__}")


def _placed(marked: str) -> ChatText:
    """The text without marks, and where they stood."""
    if BEGINS not in marked:
        return ChatText(marked)
    places, start, length = [], 0, 0
    for piece in _TAGS.split(marked):
        if piece == BEGINS:
            start = length
        elif piece == ENDS:
            places.append((start, length))
        else:
            length += len(piece)
    return ChatText(_TAGS.sub("", marked), tuple(places))


@dataclass(frozen=True)
class SpelledOut:
    """Special tokens that messages spell out: hidden while a template is rendered, and then encoded as text."""

    tokens: tuple[str, ...]  # every special token of the tokenizer, the longest first

    @classmethod
    def of(cls, engine: Engine) -> "SpelledOut":
        special = [token.content for token in engine.get_added_tokens_decoder().values() if token.special]
        return cls(tuple(sorted((word for word in special if word.strip()), key=len, reverse=True)))

    def inside(self, value: Any) -> bool:
        """Whether a special token stands in any string of a message."""
        return any(token in text for text in _strings(value) for token in self.tokens)

    def hide(self, value: Any) -> Any:
        """The same with a number in place of each."""
        if isinstance(value, str):
            return self._any.sub(lambda found: f"{OPENS}{self.tokens.index(found[0])}{CLOSES}", value)
        if isinstance(value, Mapping):
            return {key: self.hide(one) for key, one in value.items()}
        return [self.hide(one) for one in value] if isinstance(value, list | tuple) else value

    def encode(self, engine: Engine, text: str) -> list[int]:
        """Tokens of a text with hidden ones: a run between two tokens of the template's is text where it holds one."""
        as_text = Engine.from_str(engine.to_str())
        as_text.encode_special_tokens = True
        found: list[int] = []
        for run, hides in self._runs(text):
            shown = _HIDDEN.sub(lambda hidden: self.tokens[int(hidden[1])], run)
            found += (as_text if hides else engine).encode(shown, add_special_tokens=False).ids
        return found

    def _runs(self, text: str) -> Iterator[tuple[str, bool]]:
        """The text in pieces, and whether each holds hidden tokens; those that do not are as long as can be."""
        plain = ""
        for piece in re.split(f"({self._any.pattern})", text):
            if not _HIDDEN.search(piece):
                plain += piece
                continue
            if plain:
                yield plain, False
            yield piece, True
            plain = ""
        if plain:
            yield plain, False

    @property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self.tokens)) or "(?!)")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
