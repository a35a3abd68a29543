"""`headway bench decode`: new tokens a second, greedy, by each library's own loop; one text and several together.

The machine's limit: every step reads all weights, so a step takes at least their bytes / bandwidth.
"""

from collections.abc import Callable, Iterator
from functools import partial

from headway.bench.contenders import LANGUAGE
from headway.bench.language import BYTES, LanguageFiles, language_files
from headway.bench.peers import Team, race, team
from headway.bench.row import Row, Target
from headway.bench.run import Bench

PROMPT = 16  # tokens read
NEW = {1: 32, 8: 16, 32: 8}  # streams -> tokens made
FACTORS = {
    "float32": {1: 1.15, 8: 1.4, 32: 1.4},
    "bfloat16": {1: 1.4, 8: 1.4, 32: 1.4},
    "int8": {1: 1.5, 8: 1.8, 32: 1.8},
    "int4": {1: 1.4, 8: 1.15, 32: 1.15},
}  # streams -> how many times the rate of the best peer is asked for


def decode(run: Bench, precision: str) -> Iterator[Row]:
    """One row for each number of streams."""
    files, asked = language_files(run), run.streams or tuple(NEW)
    with team(run, LANGUAGE, precision, files.directory, rows=max(asked), length=PROMPT + max(NEW.values())) as found:
        for streams in asked:
            yield _row(run, files, found, precision, streams)


def _row(run: Bench, files: LanguageFiles, found: Team, precision: str, streams: int) -> Row:
    new = NEW.get(streams, 24) // (4 if run.quick else 1)
    shape = f"{streams} stream{'s' if streams > 1 else ''}, {PROMPT} + {new} tokens"
    prompts, tokens, factor = files.prompts(streams, PROMPT), streams * new, FACTORS[precision].get(streams)
    return race(
        run,
        Row("decode", f"{files.name}, decode", shape, precision, streams, unit="tokens/s"),
        found,
        ("generate", (prompts, new)),
        files.check(prompts, new, precision),
        flops=2 * files.weights * (tokens + streams * PROMPT),
        bytes=int(files.weights * BYTES[precision]) * new,
        target=None if factor is None else Target(f"at least {factor} x the best peer", at_least=factor),
        figure=lambda seconds: tokens / seconds,
    )


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {name: partial(decode, precision=name) for name in FACTORS}
