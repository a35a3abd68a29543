"""The boundary between a file that a user gave and the code that interprets it: what goes wrong is said with its path.

with errors_of(path):
    read what the file says
"""

from collections.abc import Iterator
from contextlib import contextmanager

# What values of the wrong kind bring about. An AssertionError is not among them: it is a mistake of ours.
WRONG_KIND = (TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, UnicodeError)


@contextmanager
def errors_of(path: object) -> Iterator[None]:
    """Inside, the content of a file is interpreted; a value of the wrong kind becomes one sentence. Ours pass.

    >>> with errors_of("config.json"):
    ...     len(3)
    Traceback (most recent call last):
    ValueError: config.json holds a value of the wrong kind: object of type 'int' has no len()
    >>> with errors_of("config.json"):
    ...     {}["vocab_size"]
    Traceback (most recent call last):
    ValueError: config.json does not say 'vocab_size'
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} does not say {error.args[0]!r}") from error
    except WRONG_KIND as error:
        raise ValueError(f"{path} holds a value of the wrong kind: {first_line(error)}") from error


@contextmanager
def refusals_of(path: object) -> Iterator[None]:
    """The same, where what a file says is refused in sentences that do not name it.

    >>> with refusals_of("config.json"):
    ...     raise ValueError("headway has no activation 3")
    Traceback (most recent call last):
    ValueError: config.json: headway has no activation 3
    """
    try:
        with errors_of(path):
            yield
    except ValueError as error:
        if type(error) is not ValueError or str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error


@contextmanager
def errors_of_library(path: object, what: str) -> Iterator[None]:
    """The same around a library that reads the file itself, and raises Exception or a panic of Rust's.

    >>> with errors_of_library("merges.txt", "tokenizer"):
    ...     raise Exception("line 7 is invalid")
    Traceback (most recent call last):
    ValueError: merges.txt is no tokenizer that can be read: line 7 is invalid
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # pyo3's PanicException is no Exception
        raise ValueError(f"{path} is no {what} that can be read: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that torch appends; its class where it says nothing."""
    return str(error).strip().split("\n")[0][:500] or type(error).__name__
