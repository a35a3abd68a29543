"""Models that read one text, on sizes: language models, and stacks of layers by themselves."""

from collections.abc import Sequence

import torch

from headway.config import AttentionConfig, LanguageConfig
from headway.config.vectors import VectorsConfig
from headway.cost.memory.bricks import Run, add, dropout, linear, lookup
from headway.cost.memory.core import Core, core_of
from headway.cost.memory.layers import Around, stack
from headway.cost.memory.loss import linear_cross_entropy
from headway.cost.memory.scores import Bias
from headway.cost.memory.tape import Piece, Tape, Value
from headway.cost.setting import Setting
from headway.ops.mask import Mask, causal
from headway.ops.mask.pairs import Pairs


def own_core(
    c: AttentionConfig, setting: Setting, *, padded: bool = False, first: int = 0, bias: Bias | None = None
) -> Core:
    """The self-attention of a stack, whose first token stands at `first`.

    padded: rows are declared to have padding, whether they have any or not.
    """
    mask: Mask | None = setting.mask
    if c.causal:
        mask = causal() if mask is None else mask & causal()
    pairs = Pairs.of(setting.length) if not first else Pairs.of(torch.arange(first, first + setting.length))
    return core_of(c, setting.batch, setting.length, setting.length, mask=mask, pairs=pairs, padded=padded, bias=bias)


def language(run: Run, c: LanguageConfig, setting: Setting) -> Value:
    """Embed, stack, head or loss."""
    width, table = c.stack.block.output_width, run.leaf(c.vocabulary * c.stack.block.width)
    tokens, targets = run.given(setting.rows), run.given(setting.rows if run.tape.learning else 0)
    hidden = _language(run, c, setting, tokens, table)
    head = table if c.tied else run.leaf(c.vocabulary * width)
    if run.tape.learning:
        return linear_cross_entropy(run, hidden, width, head, c.vocabulary, targets)
    return linear(run, hidden, width, c.vocabulary, bias=False, weight=head)


def _language(run: Run, c: LanguageConfig, setting: Setting, tokens: Value, table: Value) -> Value:
    block, padded = c.stack.block, setting.lengths is not None
    positions = run.whole(setting.length)
    x = lookup(run, tokens, table, block.width)
    if c.positions == "learned":
        x = add(run, x, lookup(run, positions, run.leaf(c.length * block.width), block.width))
    elif c.positions == "sinusoidal":
        x = sinusoids(run, x, setting.length, block.width)
    around = Around(own_core(block.attention, setting, padded=padded))
    return stack(run, dropout(run, x, block.dropout), c.stack, around)


def sinusoids(run: Run, x: Value, length: int, width: int) -> Value:
    """x + a table that is made in float64."""
    run.tape.scratch(2 * 8 * length * width, run.item * length * width)
    return add(run, x, run.new(length * width))


def vectors(run: Run, c: VectorsConfig, setting: Setting) -> Value:
    """A stack alone; its loss, where one is wanted, is the sum of what it gives."""
    block = c.stack.block
    x = run.given(setting.rows * block.width, item=run.item)
    around = Around(own_core(block.attention, setting, padded=setting.lengths is not None))
    found = stack(run, x, c.stack, around)
    return run.tape.op((found,), 1, pull=_spread) if run.tape.learning else found


def _spread(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
    """The gradient of a sum: one number, seen as many."""
    return slopes
