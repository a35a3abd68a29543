"""What several verbs share: reading words and files of the command line, saying things on stderr."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

# The option of every verb that loads a model.
Weights = Annotated[
    Literal["int8", "int4"] | None,
    Parameter(help="Store the weights of linear maps in fewer bits; embeddings and norms stay as they are."),
]

if TYPE_CHECKING:
    from headway.hub.load import Loaded


def say(line: str, end: str = "\n") -> None:
    """A line on stderr, at once; stdout is for results."""
    print(line, file=sys.stderr, flush=True, end=end)


def at_least_one(**values: int | None) -> None:
    """Refuse a number below 1, by the name of its option.

    >>> at_least_one(batch=8, max_new_tokens=0)
    Traceback (most recent call last):
    ValueError: --max-new-tokens is at least 1, not 0
    """
    for name, value in values.items():
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is at least 1, not {value}")


def utf8(text: str, what: str) -> str:
    """A word of the command line as it is; bytes that are no text have become lone surrogates there."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is not UTF-8 text") from None
    return text


def stdin_text(what: str, instead: str) -> str:
    """All of standard input as text; `what` it is, and what may be given `instead`."""
    from headway.data.stream import stdin_bytes

    try:
        text = stdin_bytes(instead).read().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} on standard input is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def readable(file: Path) -> None:
    """Refuse a file that cannot be opened before a model is loaded; `-` is stdin."""
    if str(file) != "-":
        from headway.config.read_file import open_file

        open_file(file).close()


def load_model(
    name: str, dtype: str | None, weights: str | None, beam: int | None, check: Callable[[str, str], None]
) -> "Loaded":
    """A model for text: a run, a directory, or what a function makes with its tokenizer; `check` gets name and kind."""
    from headway.hub import load, target

    found = target.resolve(name)
    if isinstance(found, target.Function):
        return _made_model(found, dtype, weights, check)
    return load(model_directory(target.directory(name), beam, check), dtype=dtype, weights=weights)


def _made_model(found: Any, dtype: str | None, weights: str | None, check: Callable[[str, str], None]) -> "Loaded":
    from headway.hub import load
    from headway.models.model import Model
    from headway.models.own_module import wrap

    loaded = load(found.name, dtype=dtype, weights=weights)
    if not isinstance(loaded.model, Model):
        loaded = loaded._replace(model=wrap(loaded.model, found.name))
    loaded.model.eval()
    check(found.name, loaded.model.config.kind)
    if loaded.tokenizer is None:
        raise ValueError(
            f"{found.name} gives no tokenizer: let it return a module and a headway tokenizer, or name a run"
        )
    return loaded


def model_directory(found: Any, beam: int | None, check: Callable[[str, str], None]) -> Path:
    """A model's directory, after what can be refused without its weights: `check` gets its path and kind."""
    from headway.data.tokenizer import Tokenizer

    path, config = found.path, found.config
    check(str(path), config.kind)
    if Tokenizer.read(path) is None:
        raise ValueError(f"{path} has no tokenizer: add tokenizer.json, or vocab.json with merges.txt")
    words = config.outputs if config.kind == "seq2seq" else config.vocabulary
    if beam is not None and beam > words:
        raise ValueError(f"--beam {beam} is more than the {words} tokens that the model can choose from")
    return path


class Counter:
    """Progress on stderr: each second in one line of a terminal; in a log less and less often, at last every 10 s."""

    def __init__(self, unit: str = "lines") -> None:
        self.unit = unit
        self.start: tuple[float, int] | None = None
        self.last, self.pause = time.monotonic(), 1

    def __call__(self, done: int, total: int = 0, unit: str | None = None) -> None:
        """So many are done, of `total` where that is known; a unit of its own begins the count anew."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if unit is not None and unit != self.unit:
            self.unit, self.start = unit, None
        self.start = self.start or (now, done)
        if now - self.last < self.pause or now == self.start[0]:
            return
        self.last, self.pause = now, 1 if terminal else min(2 * self.pause, 10)
        rate = (done - self.start[1]) / (now - self.start[0])
        of = f" of {total:,}" if total else ""
        say(f"{done:,}{of} {self.unit}, {rate:,.{0 if rate >= 10 else 1}f} a second", end="   \r" if terminal else "\n")
