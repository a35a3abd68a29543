"""DaViT on sizes: attention in windows of a grid, then between channels."""

from headway.config import FeedForwardConfig
from headway.config.base import Pair
from headway.config.layers import AttentionConfig
from headway.config.vision import DaViTConfig
from headway.cost.memory.bricks import Run, add, cast, dropout, linear, norm
from headway.cost.memory.core import core_of
from headway.cost.memory.layers import attention, feedforward
from headway.cost.memory.loss import cross_entropy
from headway.cost.memory.tape import Value
from headway.cost.memory.vision import convolution, pictures
from headway.cost.setting import Setting


def davit(run: Run, c: DaViTConfig, setting: Setting) -> Value:
    """A stem, stages of dual blocks on a grid that halves, the mean over the last grid, classes."""
    batch, width = setting.batch, c.widths[-1]
    targets = run.given(batch if run.tape.learning else 0)
    grid = _stages(run, c, setting)
    vector = norm(run, run.tape.op((grid,), batch * width), "layer", width)
    if not c.classes:
        return run.tape.op((vector,), 1) if run.tape.learning else vector
    logits = linear(run, vector, width, c.classes, bias=True, few=False)
    return cross_entropy(run, cast(run, logits, run.wide), batch, targets) if run.tape.learning else logits


def _stages(run: Run, c: DaViTConfig, setting: Setting) -> Value:
    rows, columns = c.grids[0]
    x = _stem(run, c, setting.batch, setting.batch * rows * columns)
    for stage in range(len(c.depths)):
        x = _stage(run, c, stage, setting, x)
    return x


def _stage(run: Run, c: DaViTConfig, stage: int, setting: Setting, given: Value) -> Value:
    """What a stage is given is held till it ends."""
    x = _halve(run, c, stage, setting.batch, given) if stage else given
    for _ in range(c.depths[stage]):
        x = grid_block(run, x, c, stage, c.spatial(stage), c.padded(stage), setting)
        x = grid_block(run, x, c, stage, c.channel(stage), c.grids[stage], setting)
    return x


def _stem(run: Run, c: DaViTConfig, batch: int, places: int) -> Value:
    x = convolution(run, pictures(run, c, batch), places, c.stem * c.stem * c.channels, c.widths[0], first=True)
    run.tape.scratch(2 * x.entries * run.wide)  # rows of pixels are put in the order of rows of channels first
    return norm(run, x, "layer", c.widths[0])


def _halve(run: Run, c: DaViTConfig, stage: int, batch: int, x: Value) -> Value:
    """Every other position; a grid of odd size is filled up with zeros first."""
    before, after = c.widths[stage - 1], c.widths[stage]
    (rows, columns), (down, across) = c.grids[stage - 1], c.grids[stage]
    x = norm(run, x, "layer", before)
    if c.kernel == 2 and (rows % 2 or columns % 2):
        x = run.tape.op((x,), batch * (rows + rows % 2) * (columns + columns % 2) * before)
    return convolution(run, x, batch * down * across, c.kernel**2 * before, after)


def grid_block(
    run: Run, given: Value, c: DaViTConfig, stage: int, a: AttentionConfig, padded: Pair, setting: Setting
) -> Value:
    """x + c₁(x), x + attention(norm(x)), x + c₂(x), x + feedforward(norm(x))."""
    batch, (rows, columns), width = setting.batch, c.grids[stage], a.width
    places, mlp = batch * rows * columns, FeedForwardConfig(hidden=c.hidden(stage))
    x = add(run, given, convolution(run, given, places, 9 * width, width, groups=width))
    # A name would hold what attention finds till the block ends.
    x = add(run, x, dropout(run, _attend(run, norm(run, x, "layer", width), a, padded, (rows, columns)), c.dropout))
    x = add(run, x, convolution(run, x, places, 9 * width, width, groups=width))
    return add(run, x, dropout(run, feedforward(run, norm(run, x, "layer", width), width, mlp), c.dropout))


def _attend(run: Run, x: Value, a: AttentionConfig, padded: Pair, grid: Pair) -> Value:
    """Filled up to whole windows (a copy, even where nothing is missing); of the result, a view of the grid."""
    length, places = padded[0] * padded[1], grid[0] * grid[1]
    batch = x.entries // (places * a.width)
    x = run.tape.op((x,), batch * length * a.width)
    found = attention(run, x, a, core_of(a, batch, length, length))
    return found if padded == grid else run.tape.op((found,), batch * places * a.width, made=found.piece)
