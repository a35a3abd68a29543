"""Reach by gradients in models that run, equal to the exact sets, position by position and layer by layer."""

from typing import Literal

import pytest
import torch
from torch import nn

from headway.config import (
    Additive,
    AttentionConfig,
    BlockConfig,
    Channel,
    DaViTConfig,
    FeedForwardConfig,
    Frozen,
    LanguageConfig,
    Linear,
    Local,
    MaskedConfig,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    Softmax,
    Spatial,
    StackConfig,
    VectorsConfig,
    VisionConfig,
)
from headway.cost.reach import reach
from headway.cost.reach.measured import measured, measured_layers
from headway.cost.reach.models import Texts, layers_of
from headway.ops.mask import Mask, allowed, dilated, packed, padding
from tests.fresh import fresh

GRID = (3, 5)
MECHANISMS: dict[str, Frozen] = {
    "softmax": Softmax(),
    "linear": Linear(),
    "additive": Additive(),
    "window": Local(window=3),
    "dilated": Local(window=2, dilation=3),
    "selected": Local(window=2, selected=(4,)),
    "grid": Local(window=(2, 3), grid=GRID),
    "tiles": Spatial(grid=GRID, window=(2, 3)),
    "whole grid": Spatial(grid=GRID),
}


def stack(
    mechanism: Frozen, *, causal: bool, layers: int = 2, residual: bool = True, cross: bool = False
) -> StackConfig:
    attention = AttentionConfig(width=15, heads=3, causal=causal, mechanism=mechanism)
    block = BlockConfig(
        attention=attention,
        cross=AttentionConfig(width=15, heads=5) if cross else None,
        feedforward=FeedForwardConfig(hidden=17),
        residual=residual,
        order="pre" if residual else "none",
    )
    return StackConfig(block=block, layers=layers)


def language(mechanism: Frozen, **rest) -> LanguageConfig:
    return LanguageConfig(vocabulary=19, length=23, stack=stack(mechanism, causal=True, **rest))


def masked(mechanism: Frozen, **rest) -> MaskedConfig:
    return MaskedConfig(vocabulary=19, length=23, stack=stack(mechanism, causal=False, **rest))


def model_of(config: Frozen) -> nn.Module:
    """Random in every number: a bias of 0 could hide a way."""
    model = fresh(config, dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return model


def same(config: Frozen, length: int = 15, source: int = 15, mask: Mask | None = None) -> None:
    texts = Texts(length, source, mask)
    want, found = layers_of(config, texts), measured_layers(model_of(config), texts)
    for one, other in zip(want, found, strict=True):
        assert (one.part, one.number, one.causal) == (other.part, other.number, other.causal)
        assert torch.equal(one.sets.table, other.sets.table), (one.part, one.number)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("name", MECHANISMS)
def test_texts(name: str, residual: bool) -> None:
    same(language(MECHANISMS[name], residual=residual))
    same(masked(MECHANISMS[name], residual=residual))


@pytest.mark.parametrize("heads", [3, 15])
def test_channels(heads: int) -> None:
    block = BlockConfig(attention=AttentionConfig(width=15, heads=heads, mechanism=Channel()))
    same(MaskedConfig(vocabulary=19, length=23, stack=StackConfig(block=block, layers=2)), 11)


@pytest.mark.parametrize("mechanism", [Softmax(), Linear(), Local(window=2), Local(window=2, selected=(3,))])
@pytest.mark.parametrize("hole", [False, True])
def test_padding(mechanism: Frozen, hole: bool) -> None:
    keep = torch.tensor([[False] * 2 + [True] * 4 + [not hole] + [True] * 3 + [False]])
    same(language(mechanism), 11, mask=padding(keep=keep))
    same(masked(mechanism), 11, mask=padding(keep=keep))


def test_masks_of_ones_own() -> None:
    heads = torch.rand(3, 11, 11, generator=torch.Generator().manual_seed(0)) < 0.15
    same(language(Local(window=2)), 13, mask=packed([5, 1, 7]))
    same(masked(Softmax()), 11, mask=allowed(heads))
    same(masked(Softmax(), residual=False), 11, mask=allowed(heads))


def test_one_key_alone_needs_no_query() -> None:
    """Everybody but oneself, without residual: token 0 sees nothing, token 1 token 0 and not itself."""
    others, config = ~dilated(1, dilation=1), language(Softmax(), residual=False)
    same(config, 7, mask=others)
    first = measured_layers(model_of(config), Texts(7, 7, others))[0].sets.counts
    assert first.tolist() == [0, 1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("source", [1, 13])
@pytest.mark.parametrize("mechanism", [Softmax(), Local(window=2)])
def test_encoder_and_decoder(mechanism: Frozen, source: int, residual: bool) -> None:
    encoder = stack(mechanism, causal=False, layers=2, residual=residual)
    decoder = stack(mechanism, causal=True, layers=3, residual=residual, cross=True)
    same(Seq2SeqConfig(vocabulary=19, encoder=encoder, decoder=decoder), 7, source)
    same(Seq2SeqConfig(vocabulary=19, target_vocabulary=11, encoder=encoder, decoder=decoder), 7, source)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_recurrent(bidirectional: bool) -> None:
    same(RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5, bidirectional=bidirectional), 5, 7)


def vision(mechanism: Frozen, *, tokens: int = 0) -> VisionConfig:
    return VisionConfig(
        image=(10, 17), patch=3, stack=stack(mechanism, causal=False), class_token=tokens > 0, distilled=tokens > 1,
        pooling="class" if tokens else "mean",
    )  # fmt: skip


def test_patches() -> None:
    same(vision(Softmax(), tokens=1))
    same(vision(Local(window=2, grid=GRID)))
    same(vision(Local(window=2, grid=GRID, global_tokens=True), tokens=2))
    same(vision(Spatial(grid=GRID, window=2)))
    same(vision(Local(window=3), tokens=1))


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("groups", ["one channel each", "several"])
def test_pixels(kernel: Literal[2, 3], groups: str) -> None:
    """With one channel a group only convolutions and windows spread; a stem of 5 every 4 leaves pixels out."""
    single = groups == "one channel each"
    widths, heads = ((3, 5), (3, 5)) if single else ((4, 6), (2, 2))
    config = DaViTConfig(
        depths=(1, 1 + single), widths=widths, heads=heads, image=(28, 40), window=(2, 3), kernel=kernel, stem=5,
        stride=4, classes=0,
    )  # fmt: skip
    same(config)
    if single:
        same(config.at((4, 124)))  # long enough that no layer has seen it all


def test_vectors_and_sentences() -> None:
    same(VectorsConfig(stack=stack(Local(window=2), causal=False, residual=False)), 11)
    same(SentenceConfig(encoder=masked(Local(window=2)), limit=13), 13)


def test_layers_of_one_block() -> None:
    """Each layer sees farther than the one before, though one module runs as all of them."""
    same(language(Local(window=2), layers=3).replace("stack", shared=True), 11)
    same(masked(Local(window=2), layers=3).replace("stack", shared=True), 11)


def test_the_report_is_the_same_and_another_window_is_not() -> None:
    model = model_of(language(Local(window=3)))
    assert measured(model, 11) == reach(language(Local(window=3)), 11)
    assert measured(model, 11) != reach(language(Local(window=2)), 11)


def test_the_model_is_left_as_it_was() -> None:
    model = model_of(language(Softmax())).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    measured(model, 5)
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_what_cannot_be_tried() -> None:
    with pytest.raises(ValueError, match="Linear is no model of headway"):
        measured_layers(nn.Linear(3, 5), Texts(3, 3))
    model = fresh(RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5))
    with pytest.raises(ValueError, match="not for Recurrent"):
        measured(model, 5, mask=packed([5]))
