"""Order: attention alone does not know it, positions do. "john loves mary" against "mary loves john"."""

import pytest
import torch
from torch import Tensor

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Rotary, StackConfig
from headway.nn import AlibiBias, Context, LearnedPositions, RelativeBias, SinusoidalPositions, Stack

WORDS = {"john": 0, "loves": 1, "mary": 2}
FIRST, SECOND = "john loves mary", "mary loves john"
SWAP = torch.tensor([2, 1, 0])  # where each word of the first sentence stands in the second
WIDTH = 20


def embedded(sentence: str) -> Tensor:
    table = torch.randn(len(WORDS), WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return table[[WORDS[word] for word in sentence.split()]][None]


def encoder(*, rotary: bool = False, layers: int = 3) -> Stack:
    attention = AttentionConfig(width=WIDTH, heads=5, bias=True, rotary=Rotary() if rotary else None)
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=31))
    return Stack(StackConfig(block=block, layers=layers, final_norm=True)).double()


def difference(model: Stack, prepare=lambda x: x, context: Context | None = None) -> float:
    """How far each word's representation moves when the sentence is turned round."""
    first, second = (model(prepare(embedded(text)), context) for text in (FIRST, SECOND))
    return float((first - second[:, SWAP]).detach().abs().max())


@pytest.mark.parametrize("layers", [1, 4])
def test_without_positions_mary_is_mary_wherever_she_stands(layers: int) -> None:
    """Norms, feed-forward and more layers do not help: they treat all places alike."""
    assert difference(encoder(layers=layers)) < 1e-12


POSITIONS = torch.arange(3)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "alibi", "relative"])
def test_positions_tell_who_loves_whom(kind: str) -> None:
    embedding = {"sinusoidal": SinusoidalPositions(WIDTH), "learned": LearnedPositions(7, WIDTH)}.get(kind)
    bias = {"alibi": AlibiBias(5), "relative": RelativeBias(5)}.get(kind)
    prepare = (lambda x: x) if embedding is None else (lambda x: embedding.double()(x, POSITIONS))
    if isinstance(bias, RelativeBias):
        torch.nn.init.normal_(bias.weight)
    context = None if bias is None else Context(bias=bias.double()())
    moved = difference(encoder(rotary=kind == "rotary"), prepare, context)
    if kind == "alibi":
        # A bias by distance alone cannot tell a sentence from its mirror image; an asymmetric order it can.
        assert moved < 1e-12
        other = encoder()
        one, two = other(embedded("john loves mary"), context), other(embedded("loves john mary"), context)
        moved = float((one - two[:, torch.tensor([1, 0, 2])]).detach().abs().max())
    assert moved > 1e-3


def test_softmax_of_permuted_scores() -> None:
    """softmax(PᵀKᵀQP) = Pᵀ softmax(KᵀQ) P, over columns; and it is not softmax(KᵀQ), as one text has it."""
    scores = torch.randn(5, 5, dtype=torch.float64)
    p = torch.eye(5, dtype=torch.float64)[torch.randperm(5, generator=torch.Generator().manual_seed(1))]
    soft = lambda s: s.softmax(0)  # noqa: E731 (columns are data there)
    torch.testing.assert_close(soft(p.T @ scores @ p), p.T @ soft(scores) @ p)
    assert float((soft(p.T @ scores @ p) - soft(scores)).abs().max()) > 1e-2
