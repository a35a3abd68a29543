"""A mistake in a command is one sentence on stderr and exit code 2, never a traceback."""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError, UnusedCliTokensError
from cyclopts.exceptions import ValidationError as Refused
from pydantic import ValidationError

from headway.cli.option_names import accepted, unknown_option
from headway.render.text import printable

MISTAKE = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
UNREAD = 141  # 128 + SIGPIPE: whoever read our output has left

# Of the operating system's errors, those that a path on the command line brings about.
PATHS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)

# And of those without a path, those that a place brings about: a full disk, a file system that takes no files.
PLACES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.ENOMEM)

LONGEST = 1200  # letters of a sentence; a value within it may have millions


def run(app: App, tokens: Sequence[str], verbs: Iterable[str]) -> int:
    """Run a command and return its exit code; errors that are not the user's keep their traceback."""
    return report_errors(lambda: app(accepted(tokens)), verbs)


def report_errors(command: Callable[[], int], verbs: Iterable[str]) -> int:
    """The exit code of a command, its mistakes told in one sentence."""
    if sys.stderr is None:  # closed by whoever started us; print() would take stdout for it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    try:
        if sys.stdout is None:
            raise ValueError("standard output is closed: send it somewhere, for example with > /dev/null")
        code = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return UNREAD
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # how rich leaves a pipe that nobody reads
            return UNREAD
        raise
    except (CycloptsError, ValueError, OSError, MemoryError, RuntimeError) as error:
        if not is_mistake(error) or os.environ.get("HEADWAY_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _discard_stdout()
        print(f"headway: {sentence(error, verbs)}", file=sys.stderr)
        return MISTAKE
    return code


def is_mistake(error: BaseException) -> bool:
    """Whether an error is about what the user gave: a value, a path, more than the machine has."""
    if isinstance(error, OSError):
        return isinstance(error, PATHS) or error.filename is not None or error.errno in PLACES
    return isinstance(error, CycloptsError | ValueError) or _is_memory(error)


def _is_memory(error: BaseException) -> bool:
    """Python's own error, or that of torch, which has no class for it on a CPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))


def sentence(error: BaseException, verbs: Iterable[str]) -> str:
    """The error in one line.

    >>> sentence(ValueError("width 768 is not\\n  divisible by heads 7"), ["bench"])
    'width 768 is not divisible by heads 7'
    >>> sentence(FileNotFoundError(2, "No such file or directory", "run.yaml"), ["bench"])
    'run.yaml: no such file or directory'
    """
    if isinstance(error, UnknownCommandError):
        text = _unknown_command(error, verbs)
    elif isinstance(error, UnknownOptionError):
        known = [name for one in error.argument_collection if one.parse for name in one.names]
        word = error.token.keyword or error.token.value
        text = unknown_option(word, " ".join(error.command_chain or ()), known)
    elif isinstance(error, UnusedCliTokensError):
        text = _left_over(error)
    elif isinstance(error, Refused) and isinstance(error.__cause__, ValidationError):
        # Our own sentence, without pydantic's frame around it.
        text = error.__cause__.errors()[0]["msg"].removeprefix("Value error, ")
    elif isinstance(error, OSError) and error.strerror:
        said = f"{error.strerror[0].lower()}{error.strerror[1:]}"
        text = said if error.filename is None else f"{error.filename}: {said}"
    elif _is_memory(error):
        text = "the memory of this machine does not suffice: choose a smaller model, batch or length"
    else:
        text = str(error)
    return shortened(" ".join(printable(text).split())) or type(error).__name__


def shortened(text: str) -> str:
    """The beginning and the end of a text that is too long to read.

    >>> len(shortened("x" * 10**6))
    1200
    """
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[: half - 2]} … {text[-half + 1 :]}"


def _left_over(error: UnusedCliTokensError) -> str:
    """Words that nothing takes.

    A file may begin with a hyphen, as `-` is one: then an unknown option was read as a file, and its value is left.
    """
    assert error.app is not None and error.unused_tokens
    verb = " ".join(error.command_chain or ())
    known = [name for one in error.app.assemble_argument_collection() for name in one.names]
    given = [token.split("=")[0] for token in error.root_input_tokens or () if token.startswith("--")]
    word = next((token for token in given if token not in known), None)
    if word is not None:
        return unknown_option(word, verb, known)
    return f"headway {verb} has no use for {error.unused_tokens[0]!r}; see headway {verb} --help"


def _unknown_command(error: UnknownCommandError, verbs: Iterable[str]) -> str:
    # cyclopts' own sentence imports every verb, and with them torch.
    assert error.unused_tokens
    word, known = error.unused_tokens[0], list(verbs)
    kind = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, [*known, "--help", "--version"], n=1)
    way_out = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(known)}; see headway --help."
    return f"there is no {kind} {word!r}; {way_out}"


def _discard_stdout() -> None:
    # The interpreter flushes stdout once more when it exits, and would complain there.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
