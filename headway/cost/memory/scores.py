"""Attention with its scores written out: what ops/attention/explicit, additive and channel take and keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.cost.memory.bricks import Run, cast
from headway.cost.memory.tape import OUT, Piece, Tape, Value, anew
from headway.ops.attention.explicit import _SMALL_CAP
from headway.sizes import Sizes

KEPT = 2**20  # entries of the largest table of a bias that the layers of a stack share (models.shared)


@dataclass(frozen=True, eq=False)
class Bias:
    """A bias that all layers of a stack share: its parameters, how many differences it tells apart, its tables.

    Without gradients, and in tiles, a table is made once for all layers.
    """

    weight: Value
    differences: int
    tables: dict[tuple[int, int], Value] = field(default_factory=dict)

    def table(self, run: Run, s: Sizes) -> Value:
        entries, shape = s.heads * s.queries * s.keys, (s.queries, s.keys)
        if shape in self.tables:
            return self.tables[shape]
        made = run.tape.new(entries, self.weight.item)
        if entries <= KEPT:
            self.tables[shape] = made
        return made


@dataclass(frozen=True, eq=False)
class Written:
    """Softmax attention for which no kernel serves: a cap on the scores, a bias that learns."""

    softcap: float | None
    masked: bool
    bias: "Bias | None" = None
    scale: float | None = None

    def block(self, run: Run, s: Sizes, q: Value, k: Value, v: Value) -> Value:
        wide, item = max(4, q.item), q.item
        scores = dot(run, s, cast(run, q, wide), cast(run, k, wide), scaled=self.scale != 1.0)
        scores = self._modified(run, s, scores)
        table = run.tape.new(s.queries * s.keys, 1) if self.masked else None
        return cast(run, average(run, s, normalised(run, scores, table), cast(run, v, wide)), item)

    def _modified(self, run: Run, s: Sizes, scores: Value) -> Value:
        tape, n, size = run.tape, scores.entries, scores.bytes
        if self.softcap is not None and self.softcap > _SMALL_CAP:
            scores = tape.op((tape.op((scores,), n),), n, keeps=(OUT,))
            scores = tape.op((scores,), n)
        elif self.softcap is not None:
            # Twice in place, which autograd takes apart with copies; then a product, in place without gradients.
            scores = tape.op((scores,), n, made=scores.piece, pull=anew(2 * size))
            scores = tape.op((scores,), n, made=scores.piece, keeps=(OUT,), pull=anew(2 * size))
            scores = tape.op((scores,), n, made=None if tape.learning else scores.piece)
        return scores if self.bias is None else biased(run, s, scores, self.bias)


def biased(run: Run, s: Sizes, scores: Value, bias: Bias) -> Value:
    """A table of the bias is looked up by differences of positions, and added."""
    table = s.heads * s.queries * s.keys * scores.item
    if not run.tape.learning:
        shared = bias.table(run, s)
        return run.tape.op((scores,), scores.entries, beside=table if shared.item != scores.item else 0)
    looked = 8 * (s.queries + s.keys - 1), 8 * bias.differences

    def pull(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
        tape.scratch(2 * table)
        return [slopes[0] if sizes[0] else None, Piece(tape, sizes[1]) if sizes[1] else None]

    sources = (scores, run.leaf(bias.weight.entries) if run.alone else bias.weight)
    return run.tape.op(sources, scores.entries, keeps=looked, before=table, beside=table, pull=pull)


def laid(run: Run, x: Value, batch: int, heads: int) -> Value:
    """x in the order that a batch of products wants: batch and heads are one axis there.

    Heads stand beside one another, within a position: a copy, but for one text or one head, where a view does.
    """
    return x if batch == 1 or heads == 1 else run.tape.op((x,), x.entries)


def dot(run: Run, s: Sizes, q: Value, k: Value, *, scaled: bool) -> Value:
    """q kᵀ · scale; queries that share a key head are put below one another, a copy too."""
    grown = run.tape.op((q,), q.entries) if scaled else q
    first = laid(run, grown, s.batch, s.heads) if s.heads == s.kv_heads else run.tape.op((grown,), q.entries)
    second = laid(run, k, s.batch, s.kv_heads)
    return run.tape.op((first, second), s.scores, keeps=(first, second))


def normalised(run: Run, scores: Value, table: Value | None) -> Value:
    held = scores if table is None else run.tape.op((scores,), scores.entries, keeps=(table.entries,))
    return run.tape.op((held,), held.entries, keeps=(OUT,))


def average(run: Run, s: Sizes, weights: Value, v: Value) -> Value:
    values = laid(run, v, s.batch, s.kv_heads)
    return run.tape.op((weights, values), s.batch * s.heads * s.queries * s.value_width, keeps=(weights, values))


def additive_scores(masked: bool) -> Callable[[Run, Sizes, Value, Value, Value], Value]:
    """vector · tanh(q + k): a hidden layer of K units for every pair."""

    def block(run: Run, s: Sizes, q: Value, k: Value, v: Value) -> Value:
        tape, wide, item = run.tape, max(4, q.item), q.item
        scores = _hidden(run, s, cast(run, q, wide), cast(run, k, wide))
        table = tape.new(s.queries * s.keys, 1) if masked else None
        return cast(run, average(run, s, normalised(run, scores, table), cast(run, v, wide)), item)

    return block


def _hidden(run: Run, s: Sizes, q: Value, k: Value) -> Value:
    tape, entries = run.tape, s.scores * s.key_width
    copied = tape.op((k,), s.batch * s.heads * s.keys * s.key_width)
    total = tape.op((q, copied), entries)
    del copied
    pairs = tape.op((total,), entries, keeps=(OUT,))
    del total
    return tape.op((pairs,), s.scores, keeps=(pairs,), beside=pairs.bytes)  # a copy in the order of the product


def channels(run: Run, s: Sizes, q: Value, k: Value, v: Value) -> Value:
    """v · softmax(qᵀ k)ᵀ, channels by channels: k and v repeated for each head, once too; q laid for the product."""
    tape, wide = run.tape, max(4, q.item)
    item, scores = q.item, s.batch * s.heads * s.key_width * s.key_width
    q = cast(run, q, wide)
    keys, values = cast(run, tape.op((k,), q.entries), wide), cast(run, tape.op((v,), q.entries), wide)
    first = laid(run, q, s.batch, s.heads)
    weights = tape.op((first, keys), scores, keeps=(first, keys))
    del first
    weights = tape.op((tape.op((weights,), scores),), scores, keeps=(OUT,))
    return cast(run, tape.op((values, weights), q.entries, keeps=(values, weights)), item)
