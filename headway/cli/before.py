"""What the verbs that produce text refuse before they read any weights."""

import sys
from collections.abc import Callable
from pathlib import Path


def utf8(text: str, what: str) -> str:
    """A word of the command line as it is; bytes that are no text have become lone surrogates there."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is not UTF-8 text") from None
    return text


def stdin_text(what: str, instead: str) -> str:
    """All of standard input as text; `what` it is, and what may be given `instead`."""
    if sys.stdin is None:  # the shell has closed it
        raise ValueError(f"standard input is closed: give {instead}, or something to read")
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} on standard input is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def before_loading(directory: str, beam: int | None, check: Callable[[str, str], None]) -> Path:
    """A model's directory, after what can be refused without its weights: `check` is told its path and kind."""
    from headway.data.tokenizer import Tokenizer
    from headway.hub import target

    found = target.directory(directory)
    path, config = found.path, found.config
    check(str(path), config.kind)
    if Tokenizer.read(path) is None:
        raise ValueError(f"{path} has no tokenizer: add tokenizer.json, or vocab.json with merges.txt")
    words = config.outputs if config.kind == "seq2seq" else config.vocabulary
    if beam is not None and beam > words:
        raise ValueError(f"--beam {beam} is more than the {words} tokens that the model can choose from")
    return path
