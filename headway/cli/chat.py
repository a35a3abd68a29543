"""A conversation in a terminal, turn by turn, and conversations from a JSON file."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.cli.common import say, stdin_text

HELP = "write to the model; a line that ends with \\ goes on in the next, /clear begins anew, /exit or Ctrl-D ends"


def read_conversations(file: Path) -> list[list[dict[str, Any]]]:
    """One conversation, a list of messages, or a list of several."""
    from headway.config.read_file import parse_json, read_text

    text = stdin_text("the messages", "--messages FILE") if str(file) == "-" else read_text(file)
    found = parse_json(text, file)
    one = found["messages"] if isinstance(found, dict) and "messages" in found else found
    if not isinstance(one, list) or not one:
        raise ValueError(f'{file} holds no list of messages such as [{{"role": "user", "content": "Hi"}}]')
    return [one] if isinstance(one[0], dict) else one


@dataclass
class Conversation:
    """Turns of a person at a terminal and of a model; what was said stays until it is cleared."""

    model: Any
    options: dict[str, Any]  # of the batch that reads
    choosing: dict[str, Any]  # of each request
    first: list[dict[str, Any]]  # messages before the first turn
    say: Callable[[str, Any], str]  # how a turn ended

    def run(self) -> int:
        with suppress(ImportError):
            import readline  # noqa: F401 (input edits lines with it)
        messages = list(self.first)
        say(HELP)
        while (text := _line()) is not None:
            if text.strip() in ("/exit", "/quit", "/bye"):
                break
            if text.strip() == "/clear":
                messages = list(self.first)
            elif text.strip():
                messages = self._turn([*messages, {"role": "user", "content": text}]) or messages
        return 0

    def _turn(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """The conversation with the model's answer, written as it comes; None where it cannot answer."""
        from headway.decoding import Generation, Request, stream

        events: list[Any] = []
        try:
            for event in stream(self.model, Request(messages=tuple(messages), **self.choosing), **self.options):
                events.append(event)
                print(event.text, end="", flush=True)
        except KeyboardInterrupt:
            print()
            said = "".join(event.text for event in events)
            return [*messages, {"role": "assistant", "content": said}] if said else None
        except ValueError as error:
            say(f"{error}; /clear begins anew" if len(messages) > 1 else str(error))
            return None
        print()
        found = Generation.of(events)
        if found.finish != "end":
            say(self.say("", found).removeprefix(": "))
        return [*messages, found.message]


def _line() -> str | None:
    """What a person writes; None at the end of input."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input("> " if not lines else "… "))
        except EOFError:
            print(file=sys.stderr)
            return None
        if not lines[-1].endswith("\\"):
            return "\n".join(line.removesuffix("\\") for line in lines)
