"""What the middle of an attention layer takes and keeps, by the way that its fast path takes.

A computation in tiles keeps q, k and v alone; what one tile needs, forwards and once more backwards, is found on a tape
of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headway.config import Additive, AttentionConfig, Channel, Frozen, Linear, Local, Spatial, sides
from headway.cost.memory.bricks import Run, cast, sliced, split
from headway.cost.memory.linear import linear_core
from headway.cost.memory.scores import Bias, Written, additive_scores, channels
from headway.cost.memory.tape import OUT, Piece, Pull, Tape, Value, anew
from headway.ops.attention import local
from headway.ops.attention.additive import _rows as additive_rows
from headway.ops.attention.neighbours import plan_neighbours
from headway.ops.attention.price import tabulated, written_rows
from headway.ops.attention.tiles import ROWS, SMALL, Tile, length, plan
from headway.ops.mask import Mask
from headway.ops.mask.kernel import Kernel, choose, is_causal
from headway.ops.mask.pairs import Pairs
from headway.sizes import Sizes

Block = Callable[[Run, Sizes, Value, Value, Value], Value]


@dataclass(frozen=True, eq=False)
class Core:
    """One attention call for all layers of a stack: its sizes, its mask, and what modifies its scores."""

    sizes: Sizes
    spec: Frozen
    mask: Mask | None = None
    pairs: Pairs | None = None
    padded: bool = False
    softcap: float | None = None
    bias: Bias | None = None
    runs: tuple[tuple[int, int], ...] = ()  # texts packed into one row: how many of which length, one after the other
    scale: float | None = None
    known: dict[str, Any] = field(default_factory=dict)  # plans and needs of tiles, the same for all layers

    @property
    def kernel(self) -> Kernel:
        return Kernel() if self.mask is None or self.pairs is None else choose(self.mask, self.pairs)


def attend(run: Run, core: Core, q: Value, k: Value, v: Value) -> Value:
    """What the queries gather, as a tensor of its own with heads before positions, or after them (torch's kernel)."""
    s, spec = core.sizes, core.spec
    if core.runs:
        return _in_runs(run, core, q, k, v)
    if isinstance(spec, Linear):
        causal = is_causal(core.mask)
        return linear_core(run, s, q, k, v, feature=str(spec.feature), chunk=spec.chunk if causal else 0)
    if isinstance(spec, Channel):
        return channels(run, s, q, k, v)
    if isinstance(spec, Additive):
        return _additive(run, core, q, k, v)
    if isinstance(spec, Spatial) and spec.window is not None:
        return _in_windows(run, core, spec, q, k, v)
    if not isinstance(spec, Local):
        return softmax(run, core, None, q, k, v)
    if "near" not in core.known:
        core.known["near"] = _near(core, spec)
    masked, tiles = core.known["near"]
    return softmax(run, masked, tiles, q, k, v)


def _near(core: Core, spec: Local) -> tuple[Core, list[Tile] | None]:
    """The call under the mask of its window, and the tiles that cover it."""
    assert core.pairs is not None
    tiles, near = plan_neighbours(spec, core.mask, core.pairs), local.pattern(spec)
    return replace(core, mask=near if core.mask is None else near & core.mask, known={}), tiles


def softmax(run: Run, core: Core, tiles: list[Tile] | None, q: Value, k: Value, v: Value) -> Value:
    """The fused kernel, or tiles; in float32 where half precision has no fast product and gradients are wanted."""
    item = 4 if run.item < 4 and (core.bias is not None or (run.slow and run.tape.learning)) else run.item
    found = _softmax(run, core, tiles, cast(run, q, item), cast(run, k, item), cast(run, v, item))
    return cast(run, found, run.item)


def _softmax(run: Run, core: Core, tiles: list[Tile] | None, q: Value, k: Value, v: Value) -> Value:
    s, kernel = core.sizes, core.kernel if tiles is None else Kernel(tiles=True)
    masked = core.mask is not None
    if core.softcap is not None or (core.bias is not None and run.tape.learning):
        block: Block = Written(core.softcap, masked, core.bias, core.scale).block
        return _tiled(run, core, block, tiles, q, k, v, rows=written_rows(s.keys))
    if kernel.tiles or core.bias is not None:
        cut = tiles is not None or s.queries * s.keys > SMALL
        return _tiled(run, core, _fused_tile(masked, core.bias, cut=cut), tiles, q, k, v, rows=ROWS)
    return fused(run, s, q, k, v, mask=s.batch * s.keys * q.item if core.padded else 0)


def fused(run: Run, s: Sizes, q: Value, k: Value, v: Value, *, mask: int = 0) -> Value:
    """torch's kernel: keeps q, k, v, the result and a number for each row of scores; `mask` bytes of a mask, if any."""
    wide = max(s.key_width, s.value_width)
    if s.key_width != s.value_width:  # it wants one width
        q, k, v = (_padded(run, x, wide, own) for x, own in ((q, s.key_width), (k, s.key_width), (v, s.value_width)))
    rows = s.batch * s.heads * s.queries
    forth, back = flash_scratch(s, run.threads)
    if s.key_width > s.value_width or (s.key_width < s.value_width and run.item < q.item):
        back += rows * wide * q.item  # the gradient of a narrower view is put in order
    kept = (q, k, v, OUT, 4 * rows, *((mask,) if mask else ()))
    found = run.tape.op((q, k, v), rows * wide, keeps=kept, beside=forth + 4 * rows + mask, pull=anew(back))
    # A narrower view, whose gradient is made as wide again.
    return found if wide == s.value_width else run.tape.op((found,), rows * s.value_width, made=found.piece)


def _padded(run: Run, x: Value, wide: int, own: int) -> Value:
    return x if own == wide else run.tape.op((x,), x.entries // own * wide)


def flash_scratch(s: Sizes, threads: int) -> tuple[int, int]:
    """Bytes that torch's CPU kernel works in, forwards and backwards: a block of scores for each thread."""
    rows = min(256 if s.queries >= 768 else 64 if s.queries >= 192 else 32, s.queries)
    keys = min(512, s.keys)
    return 4 * threads * rows * (keys + 2 + max(s.key_width, s.value_width)), 8 * threads * rows * keys


def _fused_tile(masked: bool, bias: Bias | None, *, cut: bool) -> Block:
    """The fused kernel on a tile, with a table of what it may see, and one of the bias."""

    def block(run: Run, s: Sizes, q: Value, k: Value, v: Value) -> Value:
        table = None if bias is None else bias.table(run, s)
        entries = s.queries * s.keys * (1 if bias is None else s.heads)
        # Of a bias in half precision there is a wider copy, beside what the mask leaves of it or (of a part) another.
        narrow = table is not None and table.item != q.item
        other = table.item if narrow and masked and table is not None else q.item if narrow and cut else 0
        mask = run.tape.new(entries, q.item + other) if masked or narrow else None
        found = fused(run, s, q, k, v)
        del mask, table
        return found

    return block


def _tiled(
    run: Run, core: Core, block: Block, tiles: list[Tile] | None, q: Value, k: Value, v: Value, *, rows: int
) -> Value:
    s = core.sizes
    plain = core.bias is None and core.softcap is None
    if tiles is None and (s.queries * s.keys <= SMALL or (plain and tabulated(core.mask, s.queries, s.keys))):
        if core.mask is not None and plain:
            run.tape.scratch(s.queries * s.keys * 18)
        return block(run, s, q, k, v)
    if tiles is None and "plan" not in core.known:
        assert core.pairs is not None
        core.known["plan"] = plan(core.mask, core.pairs, rows=rows)
    return in_tiles(run, block, core.known["plan"] if tiles is None else tiles, core, q, k, v)


def _in_runs(run: Run, core: Core, q: Value, k: Value, v: Value) -> Value:
    """Each run of texts of one length as a batch, and all of them joined where there are several."""
    s = core.sizes
    alone = [replace(core, sizes=_at(s, count, size, size), runs=(), known={}) for count, size in core.runs]
    if len(alone) == 1:
        return attend(run, alone[0], q, k, v)
    tokens = [count * size for count, size in core.runs]
    parts = [split(run, x, [x.entries * part // sum(tokens) for part in tokens]) for x in (q, k, v)]
    found = [attend(run, one, *pieces) for one, *pieces in zip(alone, *parts, strict=True)]
    return run.tape.op(tuple(found), sum(one.entries for one in found), pull=sliced)


@dataclass(frozen=True)
class Need:
    """What a tile takes: forwards at most, backwards at most, and what it leaves then (its output and gradients)."""

    forth: int
    back: int
    left: int


def in_tiles(run: Run, block: Block, tiles: Sequence[Tile], core: Core, q: Value, k: Value, v: Value) -> Value:
    """Tile by tile: the output, and the tables of tiles that look alike, are all that lasts."""
    s = core.sizes
    if "shapes" not in core.known:
        core.known["shapes"] = list({(*_shape(tile, s), _gathered(tile)): None for tile in tiles})
    shapes: list[tuple[int, int, int, bool]] = core.known["shapes"]
    if core.bias is not None and core.bias.differences:  # the first layer's tiles leave tables for those of the others
        for shape in shapes:
            core.bias.table(run, _at(s, *shape[:3]))
    needs = _needs(run, block, core, shapes, q.item)
    # Tables that a kernel is given are made once for all tiles of a shape, and held; written scores make theirs anew.
    held = core.mask is not None and core.softcap is None and core.bias is None and not isinstance(core.spec, Additive)
    tables = sum(shape[1] * shape[2] for shape in shapes) if held else 0
    making = max((shape[1] * shape[2] for shape in shapes), default=0) * (17 if core.mask is not None else 0)
    learnt = () if core.bias is None else (core.bias.weight,)
    return run.tape.op(
        (q, k, v, *learnt),
        s.batch * s.heads * s.queries * s.value_width,
        keeps=(q, k, v),
        aside=tables + 8 * max(s.queries, s.keys),
        beside=tables + max([making, *(need.forth for need in needs)]),
        pull=_tiles_back(needs, len(tiles), core.bias),
    )


def _needs(run: Run, block: Block, core: Core, shapes: Sequence[tuple[int, int, int, bool]], item: int) -> list[Need]:
    if "needs" not in core.known:
        core.known["needs"] = [
            need_of(run, block, _at(core.sizes, *shape[:3]), item=item, gathered=shape[3]) for shape in shapes
        ]
    return core.known["needs"]


def _tiles_back(needs: Sequence[Need], count: int, bias: Bias | None) -> Pull:
    """The first tile's gradients stand beside the totals; those of the others are added to them."""

    def pull(
        tape: Tape, slopes: list[Piece | None], sizes: Sequence[int], held: Bias | None = bias
    ) -> list[Piece | None]:
        tape.scratch(needs[0].back)
        found = [Piece(tape, size) if size else None for size in sizes]
        tape.scratch(needs[0].left)
        tape.scratch(max(max(need.back, need.left) for need in needs) if count > 1 else 0)
        return found

    return pull


def need_of(run: Run, block: Block, s: Sizes, *, item: int, gathered: bool) -> Need:
    """A tile on tapes of its own: its inputs are views of the whole, or copies where they are gathered."""
    sizes = (s.batch * s.heads * s.queries * s.key_width, s.batch * s.kv_heads * s.keys * s.key_width,
             s.batch * s.kv_heads * s.keys * s.value_width)  # fmt: skip
    copies = item * sum(sizes) if gathered else 0
    tape = Tape()
    block(replace(run, tape=tape, item=item), s, *(Value(size, item) for size in sizes))
    if not run.tape.learning:
        return Need(tape.peak + copies, 0, 0)
    again = Tape(learning=True)
    out = block(replace(run, tape=again, item=item, alone=True), s, *(again.leaf(size, item) for size in sizes))
    again.backward(out, seed=0)
    left = again.live
    del out
    # What was gathered is added by gathering the total's own rows, and their sum; so is the gradient that comes in.
    more = copies + (item * (2 * max(sizes) + s.batch * s.heads * s.queries * s.value_width) if gathered else 0)
    return Need(tape.peak + copies, again.peak + copies, left + more)


def _shape(tile: Tile, s: Sizes) -> tuple[int, int, int]:
    return length(tile.batch, s.batch), length(tile.rows, s.queries), length(tile.columns, s.keys)


def _gathered(tile: Tile) -> bool:
    return not (isinstance(tile.rows, slice) and isinstance(tile.columns, slice))


def _at(s: Sizes, batch: int, queries: int, keys: int) -> Sizes:
    return replace(s, batch=batch, queries=queries, keys=keys)


def _in_windows(run: Run, core: Core, spec: Spatial, q: Value, k: Value, v: Value) -> Value:
    """Windows side by side as a batch: q, k and v are copied into them, and the result out of them."""
    assert spec.window is not None
    s, (down, across) = core.sizes, sides(spec.window)
    rows, columns = -(-spec.grid[0] // down), -(-spec.grid[1] // across)
    inside = _at(s, s.batch * rows * columns, down * across, down * across)
    padded = (rows * down, columns * across) != spec.grid
    entries = inside.batch * inside.queries * s.heads
    # Keys and values are repeated for each head first, once too. Bands of whole rows are views of q.
    first = q if bands(spec) else _cut(run, q, entries * s.key_width, padded)
    second = _cut(run, _repeated(run, k, s), entries * s.key_width, padded)
    third = _cut(run, _repeated(run, v, s), entries * s.value_width, padded)
    alone = replace(core, sizes=inside, padded=padded, known={})
    found = softmax(run, alone, None, first, second, third)
    if bands(spec):
        return found
    found = run.tape.op((found,), found.entries)
    return run.tape.op((found,), s.batch * s.heads * s.queries * s.value_width) if padded else found


def bands(spec: Spatial) -> bool:
    """Whether windows are whole rows of the grid: cutting it up and putting it together are views then."""
    assert spec.window is not None
    down, across = sides(spec.window)
    return spec.grid[1] == across and spec.grid[0] % down == 0


def _repeated(run: Run, x: Value, s: Sizes) -> Value:
    return run.tape.op((x,), x.entries * s.heads // s.kv_heads)


def _cut(run: Run, x: Value, entries: int, padded: bool) -> Value:
    whole = run.tape.op((x,), entries) if padded else x
    return run.tape.op((whole,), entries)


def _additive(run: Run, core: Core, q: Value, k: Value, v: Value) -> Value:
    s = core.sizes
    if "plan" not in core.known:
        pairs = Pairs.counting(s.queries, s.keys) if core.pairs is None else core.pairs
        core.known["plan"] = plan(core.mask, pairs, rows=additive_rows(s))
    return in_tiles(run, additive_scores(core.mask is not None), core.known["plan"], core, q, k, v)


def core_of(
    c: AttentionConfig, batch: int, queries: int, keys: int, *, mask: Mask | None = None, pairs: Pairs | None = None,
    padded: bool = False, bias: Bias | None = None,
) -> Core:  # fmt: skip
    sizes = Sizes(batch, c.heads, c.kv_heads, queries, keys, c.head_width, c.value_width)
    return Core(sizes, c.mechanism, mask, pairs, padded, c.softcap, bias, scale=c.scale)
