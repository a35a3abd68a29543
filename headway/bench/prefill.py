"""`headway bench prefill`: a prompt, until the token that follows it is known; tokens of the prompt a second."""

from collections.abc import Callable, Iterator
from functools import partial

from headway.bench.contenders import LANGUAGE
from headway.bench.language import BYTES, LanguageFiles, language_files
from headway.bench.peers import Team, race, team
from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Bench

LENGTHS = (512, 2048)
FACTORS = {"float32": 1.1, "bfloat16": 1.2, "int8": 1.0}


def prefill(run: Bench, precision: str) -> Iterator[Row]:
    """One row for each length that the model can read."""
    files = language_files(run)
    lengths = [asked // (4 if run.quick else 1) for asked in ((run.length,) if run.length else LENGTHS)]
    readable = [length for length in lengths if length < files.length]
    with team(run, LANGUAGE, precision, files.directory, length=max(readable, default=1) + 1) as found:
        for length in lengths:
            yield _row(run, files, found, precision, length)


def _row(run: Bench, files: LanguageFiles, found: Team, precision: str, length: int) -> Row:
    row = Row("prefill", f"{files.name}, prefill", f"{length:,} tokens", precision, unit="tokens/s")
    target = Target(f"at least {FACTORS[precision]} x the best peer", at_least=FACTORS[precision])
    if length >= files.length:
        return unmeasured(row, f"the model reads at most {files.length} tokens", target=target)
    prompts, stack = files.prompts(1, length), files.model.config.stack
    # A layer's products meet every token, the head the last one alone. A pair of tokens costs two products of the
    # heads' width, and half of the pairs are visible.
    pairs = stack.layers * 4 * stack.block.width * length * (length + 1) // 2
    return race(
        run,
        row,
        found,
        ("generate", (prompts, 1)),
        files.check(prompts, 1, precision),
        flops=2 * (files.weights - files.head) * length + 2 * files.head + pairs,
        bytes=int(files.weights * BYTES[precision]),
        target=target,
        figure=lambda seconds: length / seconds,
    )


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {name: partial(prefill, precision=name) for name in FACTORS}
