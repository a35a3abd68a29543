"""What linear attention takes and keeps: ops/attention/scan on sizes."""

from collections.abc import Sequence
from dataclasses import replace

from headway.cost.memory.bricks import Run, cast
from headway.cost.memory.tape import OUT, Piece, Tape, Value
from headway.sizes import Sizes

WHOLE = 1024  # tokens at once where order does not matter


def linear_core(run: Run, s: Sizes, q: Value, k: Value, v: Value, *, feature: str, chunk: int) -> Value:
    """Chunks under causality (chunk 0: all keys at once)."""
    if chunk:
        return _causal(run, s, q, k, v, feature, chunk)
    if run.tape.learning:
        total = _total(run, s, *_mapped(run, s, k, v, feature))
        return _gathered(run, s, q, total, feature)
    return _whole(run, s, feature)


def _whole(run: Run, s: Sizes, feature: str) -> Value:
    """The keys in pieces, then the queries in pieces; the features of the last keys are there till the end."""
    keys = values = total = None
    for part in _parts(s, s.keys):
        _, k, v = _inputs(part, run.item, run.tape, leaves=False)
        keys, values = _mapped(run, part, k, v, feature)
        total = _total(run, part, keys, values)
    assert total is not None
    out = run.new(s.batch * s.heads * s.queries * s.value_width)
    for part in _parts(s, s.queries):
        _gathered(run, part, _inputs(part, run.item, run.tape, leaves=False)[0], total, feature)
    return out


def _parts(s: Sizes, length: int) -> list[Sizes]:
    """The same call of at most so many tokens; parts of one size stand for all others of it."""
    sizes = [WHOLE] * min(2, length // WHOLE) + ([length % WHOLE] if length % WHOLE else [])
    return [replace(s, queries=size, keys=size) for size in sizes]


def _inputs(s: Sizes, item: int, tape: Tape, *, leaves: bool) -> list[Value]:
    sizes = (s.batch * s.heads * s.queries * s.key_width, s.batch * s.kv_heads * s.keys * s.key_width,
             s.batch * s.kv_heads * s.keys * s.value_width)  # fmt: skip
    return [tape.leaf(size, item) if leaves else Value(size, item) for size in sizes]


def _featured(run: Run, x: Value, feature: str) -> Value:
    wide = cast(run, x, run.wide)
    if feature == "elu":
        return run.tape.op((run.tape.op((wide,), x.entries, keeps=(wide,)),), x.entries)
    return run.tape.op((wide,), x.entries, keeps=(OUT,))


def _mapped(run: Run, s: Sizes, k: Value, v: Value, feature: str) -> tuple[Value, Value]:
    """The features of the keys, and the values beside a column of ones."""
    keys = _featured(run, k, feature)
    return keys, run.tape.op((cast(run, v, run.wide),), s.batch * s.kv_heads * s.keys * (s.value_width + 1))


def _total(run: Run, s: Sizes, keys: Value, values: Value) -> Value:
    copy = run.tape.op((keys,), keys.entries)
    entries = s.batch * s.kv_heads * s.key_width * (s.value_width + 1)
    return run.tape.op((copy, values), entries, keeps=(copy, values))


def _gathered(run: Run, s: Sizes, q: Value, total: Value, feature: str) -> Value:
    queries = _featured(run, q, feature)
    copy = run.tape.op((queries,), queries.entries)
    found = run.tape.op((copy, total), s.batch * s.heads * s.queries * (s.value_width + 1), keeps=(copy, total))
    del copy
    found = _quotient(run, s, found)
    return cast(run, found, run.item)


def _quotient(run: Run, s: Sizes, found: Value) -> Value:
    """found over its last column, and 0 where that is 0."""
    rows = s.batch * s.heads * s.queries
    below = run.tape.op((found,), rows, keeps=(rows,))
    shared = run.tape.op((found, below), rows * s.value_width, keeps=(found, below))
    return run.tape.op((shared,), rows * s.value_width, keeps=(rows,))


def _step(run: Run, s: Sizes, q: Value, k: Value, v: Value, feature: str, total: Value | None) -> list[Value]:
    """One chunk: a triangle of scores within it, and the total before it."""
    tape, wide = run.tape, s.value_width + 1
    keys, values = _mapped(run, s, k, v, feature)
    queries = _featured(run, q, feature)
    first, second = tape.op((queries,), queries.entries), tape.op((keys,), keys.entries)
    square = tape.op((first, second), s.scores, keeps=(first, second))
    del first, second
    square = tape.op((square,), s.scores)
    found = tape.op((square, values), s.batch * s.heads * s.queries * wide, keeps=(square, values))
    del square
    if total is not None:
        more = tape.op((queries, total), found.entries, keeps=(queries, total))
        found = tape.op((found, more), found.entries)
        del more
    after = _total(run, s, keys, values)
    return [cast(run, _quotient(run, s, found), run.item), after]


def _causal(run: Run, s: Sizes, q: Value, k: Value, v: Value, feature: str, chunk: int) -> Value:
    count = -(-s.queries // chunk)
    part = replace(s, queries=min(chunk, s.queries), keys=min(chunk, s.queries))
    total = s.batch * s.kv_heads * s.key_width * (s.value_width + 1)
    forth, back = _chunk(run, part, feature, total if count > 1 else 0)
    totals = total * run.wide * (count - 1)  # before each chunk but the first

    def pull(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
        found = [Piece(tape, size) if size else None for size in sizes]
        tape.scratch(back)
        return found

    entries = s.batch * s.heads * s.queries * s.value_width
    return run.tape.op((q, k, v), entries, keeps=(q, k, v), aside=totals, beside=forth, pull=pull)


def _chunk(run: Run, s: Sizes, feature: str, total: int) -> tuple[int, int]:
    """Bytes of a chunk forwards, and of its second computation and way back."""
    tape = Tape()
    q, k, v = _inputs(s, run.item, tape, leaves=False)
    _step(replace(run, tape=tape), s, q, k, v, feature, Value(total, run.wide) if total else None)
    again = Tape(learning=True)
    q, k, v = _inputs(s, run.item, again, leaves=True)
    out = _step(replace(run, tape=again), s, q, k, v, feature, again.leaf(total, run.wide) if total else None)
    again.backward(out[0], seed=0)
    return tape.peak, again.peak
