"""`headway bench load`: from the files of a model to its first token, in a process that has imported its library.

The files are in the system's cache. headway and transformers read safetensors; CTranslate2 and llama.cpp read files of
their own, which were written before.
"""

from collections.abc import Callable, Iterator
from functools import partial

from headway.bench.contenders import LANGUAGE
from headway.bench.language import BYTES, language_files
from headway.bench.peers import race, team
from headway.bench.row import Row, Target
from headway.bench.run import Bench

PROMPT = 16
PRECISIONS = ("float32", "bfloat16", "int8", "int4")
TARGET = Target("at most 1 x the best peer", at_most=1.0)


def load(run: Bench, precision: str) -> Iterator[Row]:
    """One row: milliseconds, less is better."""
    files = language_files(run)
    prompts = files.prompts(1, PROMPT)
    row = Row("load", f"{files.name}, load to first token", f"{PROMPT} + 1 tokens", precision)
    with team(run, LANGUAGE, precision, files.directory, rows=1, length=64) as found:
        yield race(
            run,
            row,
            found,
            ("first_token", prompts),
            files.check(prompts, 1, precision),
            flops=2 * files.weights * PROMPT,
            bytes=int(files.weights * BYTES[precision]),
            target=TARGET,
        )


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {name: partial(load, precision=name) for name in PRECISIONS}
