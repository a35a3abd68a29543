"""Blocks: each order of norm and residual is the line it claims to be."""

import pytest
import torch

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from headway.nn import Block, Context, LayerNorm, RMSNorm, Stack
from headway.ops.mask import causal, padding

D = 12


def block(**changes: object) -> Block:
    config = {
        "attention": AttentionConfig(width=D, heads=3),
        "cross": AttentionConfig(width=D, heads=2, source_width=7),
        "feedforward": FeedForwardConfig(hidden=19, activation="relu"),
    }
    made = Block(BlockConfig(**{**config, **changes})).double()
    for name, parameter in made.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter)
    return made


def inputs() -> tuple[torch.Tensor, Context]:
    x, source = torch.randn(2, 5, D).double(), torch.randn(2, 11, 7).double()
    return x, Context(mask=causal(), source=source, source_mask=padding(lengths=[11, 4], total=11))


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_pre_norm(norm: str) -> None:
    b, (x, c) = block(norm=norm), inputs()
    y = x + b.attention(b.attention_norm(x), mask=c.mask)
    y = y + b.cross(b.cross_norm(y), c.source, mask=c.source_mask)
    y = y + b.feedforward(b.feedforward_norm(y))
    assert torch.equal(b(x, c), y)
    assert isinstance(b.attention_norm, LayerNorm if norm == "layer" else RMSNorm)


def test_post_norm() -> None:
    b, (x, c) = block(order="post"), inputs()
    y = b.attention_norm(x + b.attention(x, mask=c.mask))
    y = b.cross_norm(y + b.cross(y, c.source, mask=c.source_mask))
    y = b.feedforward_norm(y + b.feedforward(y))
    assert torch.equal(b(x, c), y)


def test_norms_of_what_a_branch_gives() -> None:
    b, (x, c) = block(order="res_post"), inputs()
    y = x + b.attention_out_norm(b.attention(x, mask=c.mask))
    y = y + b.cross_out_norm(b.cross(y, c.source, mask=c.source_mask))
    y = y + b.feedforward_out_norm(b.feedforward(y))
    assert torch.equal(b(x, c), y)
    assert not list(b.attention_norm.parameters())


def test_norms_before_and_after_a_branch() -> None:
    b, (x, c) = block(order="sandwich", norm="rms_zero_centered"), inputs()
    y = x + b.attention_out_norm(b.attention(b.attention_norm(x), mask=c.mask))
    y = y + b.cross_out_norm(b.cross(b.cross_norm(y), c.source, mask=c.source_mask))
    y = y + b.feedforward_out_norm(b.feedforward(b.feedforward_norm(y)))
    assert torch.equal(b(x, c), y)
    assert not torch.equal(b.attention_norm.offset, b.attention_out_norm.offset)


@pytest.mark.parametrize("order", ["pre", "none"])
def test_parallel_branches_read_the_same(order: str) -> None:
    b, x = block(parallel=True, cross=None, order=order), inputs()[0]
    y = x + b.attention(b.attention_norm(x)) + b.feedforward(b.feedforward_norm(x))
    assert torch.equal(b(x), y)


def test_branches_scaled_before_the_sum() -> None:
    b, (x, c) = block(residual_scale=0.3), inputs()
    y = x + 0.3 * b.attention(b.attention_norm(x), mask=c.mask)
    y = y + 0.3 * b.cross(b.cross_norm(y), c.source, mask=c.source_mask)
    y = y + 0.3 * b.feedforward(b.feedforward_norm(y))
    assert torch.equal(b(x, c), y)


def test_scales_by_channel_begin_where_they_are_told() -> None:
    b = Block(width=6, heads=2, layer_scale=0.25)
    assert bool((b.attention_scale.weight == 0.25).all()) and bool((b.feedforward_scale.weight == 0.25).all())


def test_branches_scaled_by_channel() -> None:
    b, (x, c) = block(layer_scale=0.3), inputs()
    with torch.no_grad():
        for scale in (b.attention_scale, b.cross_scale, b.feedforward_scale):
            scale.weight.normal_()
    y = x + b.attention_scale.weight * b.attention(b.attention_norm(x), mask=c.mask)
    y = y + b.cross_scale.weight * b.cross(b.cross_norm(y), c.source, mask=c.source_mask)
    y = y + b.feedforward_scale.weight * b.feedforward(b.feedforward_norm(y))
    assert torch.equal(b(x, c), y)


def test_the_first_branch_without_a_norm() -> None:
    b, (x, c) = block(first_norm=False, cross=None), inputs()
    y = x + b.attention(x, mask=c.mask)
    assert torch.equal(b(x, c), y + b.feedforward(b.feedforward_norm(y)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(layer_scale=0.5, residual=False), "layer_scale=0.5 is of what is added"),
        (dict(first_norm=False, order="post"), "order is 'pre', not 'post'"),
        (dict(parallel=True), "no cross-attention"),
        (dict(parallel=True, cross=None, feedforward=None), "attention and a feed-forward"),
        (dict(parallel=True, cross=None, order="post"), "order is 'pre', not 'post'"),
        (dict(parallel=True, cross=None, residual=False), "with residuals"),
        (dict(residual_scale=0.5, residual=False), "residual_scale=0.5 is of what is added"),
    ],
)
def test_blocks_that_cannot_be(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        block(**options)


@pytest.mark.parametrize("residual", [True, False])
def test_no_norm(residual: bool) -> None:
    b, (x, c) = block(order="none", residual=residual), inputs()
    keep = float(residual)
    y = keep * x + b.attention(x, mask=c.mask)
    y = keep * y + b.cross(y, c.source, mask=c.source_mask)
    y = keep * y + b.feedforward(y)
    torch.testing.assert_close(b(x, c), y)
    assert not list(b.attention_norm.parameters())


def test_dropout_acts_in_training_only() -> None:
    b, (x, c) = block(dropout=0.5), inputs()
    assert not torch.equal(b(x, c), b(x, c))
    b.eval()
    assert torch.equal(b(x, c), b(x, c))


def test_a_stack_is_its_blocks_in_turn() -> None:
    config = BlockConfig(attention=AttentionConfig(width=D, heads=3))
    stack, x = Stack(StackConfig(block=config, layers=3, final_norm=True)).double(), torch.randn(2, 5, D).double()
    y = x
    for one in stack.blocks:
        y = one(y)
    assert torch.equal(stack(x), stack.norm(y))
    assert len({id(p) for p in stack.parameters()}) == 3 * len(list(stack.blocks[0].parameters())) + 2


def test_a_block_with_cross_attention_asks_for_its_source() -> None:
    with pytest.raises(ValueError, match="attends to a source"):
        block()(torch.randn(2, 5, D).double())


def test_wrong_words_suggest_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no norm 'layr'.*did you mean layer"):
        Block(BlockConfig(attention=AttentionConfig(width=D), norm="layr"))
    with pytest.raises(ValueError, match="did you mean residual"):
        BlockConfig(attention=AttentionConfig(width=D), residuals=True)
