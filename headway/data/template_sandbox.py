"""Jinja's sandbox with limits of work: a template is somebody else's program, and a few lines of it could run for ever.

Loops are counted, and so are the characters that are joined and written. A number that makes a text, such as the width
of `center`, is limited as the text is.
"""

import functools
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import do_format
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headway.config.size_limits import TEMPLATE_CHARACTERS, TEMPLATE_TURNS

_WIDE = ("batch", "center", "format", "indent", "slice", "wordwrap")  # filters that a number makes longer
_POWER = 4096  # the largest exponent
_WIDTH = re.compile(r"%[^a-zA-Z%]*(\d{5,}|\*)")  # a text of thousands of blanks, in the language of formats
_work: ContextVar[list[int]] = ContextVar("work")  # turns and characters of the text that is made now


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """`limited` begins to count; without it a template is not run."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.filters |= {name: _limited_filter(self.filters[name]) for name in _WIDE}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            loop.body.insert(0, nodes.ExprStmt(_call("turn", line=loop.lineno), lineno=loop.lineno))
        for one in list(tree.find_all((nodes.Concat, nodes.Output))):
            plain = (nodes.TemplateData, nodes.Const)
            one.nodes = [
                part if isinstance(part, plain) else _call("text", part, line=one.lineno) for part in one.nodes
            ]
        return tree

    def turn(self) -> str:
        """Counts one turn of a loop."""
        work = _work.get()
        work[0] += 1
        if work[0] > TEMPLATE_TURNS:
            raise SecurityError(f"its loops take more than {TEMPLATE_TURNS:,} turns")
        return ""

    def text(self, value: Any) -> Any:
        """Counts the characters of a part of a text."""
        if isinstance(value, str):
            work = _work.get()
            work[1] += len(value)
            _check(work[1])
        return value

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | list | tuple) and isinstance(other, int):
                    _check(len(one) * other)
        if operator == "**" and isinstance(right, int) and abs(right) > _POWER:
            raise SecurityError(f"a power has an exponent of at most {_POWER:,}, not {right}")
        if operator == "%":
            _check_format(left)
        return self.text(super().call_binop(context, operator, left, right))

    def call(self, *given: Any, **named: Any) -> Any:
        function = given[1]
        if function in (self.turn, self.text):  # put there by `_parse`
            return function(*given[2:])
        if isinstance(getattr(function, "__self__", None), str):  # ljust, center, zfill …
            for one in given[2:]:
                _check(one)
        return self.text(super().call(*given, **named))


def _call(name: str, *arguments: nodes.Expr, line: int) -> nodes.Call:
    """A call of a method of the environment, by no name that a template could give to something else."""
    return nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None, lineno=line)


def limited(render: Callable[[], str]) -> str:
    """What a template makes, within the limits."""
    token = _work.set([0, 0])
    try:
        return render()
    finally:
        _work.reset(token)


def _limited_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def limited_function(*given: Any, **named: Any) -> Any:
        for one in (*given[1:], *named.values()):
            _check(one)
        if function is do_format:
            _check_format(given[0])
        return function(*given, **named)

    return limited_function


def _check_format(text: Any) -> None:
    if isinstance(text, str) and _WIDTH.search(text):
        raise SecurityError("a format has a width of at most four digits")


def _check(size: Any) -> None:
    if isinstance(size, int) and size > TEMPLATE_CHARACTERS:
        raise SecurityError(f"a text of more than {TEMPLATE_CHARACTERS:,} characters is asked for")
