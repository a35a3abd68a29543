"""The argmax bound, and that hard attention attains it: by gradients and by changing inputs one at a time."""

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, LanguageConfig, Seq2SeqConfig, StackConfig
from headway.cost.reach import argmax_bound, reach
from headway.cost.reach.argmax import attained, attaining, circle
from headway.nn.context import Context
from headway.ops.mask import causal

SIZES = [(1, 5, 37), (1, 1, 5), (2, 3, 29), (3, 2, 17), (5, 2, 37), (2, 5, 251), (7, 1, 11)]


def test_the_questions_of_the_seed() -> None:
    """One head 2ⁿ, two heads 3ⁿ, k heads (k + 1)ⁿ: EECS 182, 2a."""
    n, k, length = sympy.symbols("n k N", positive=True, integer=True)
    assert argmax_bound(1, n, sympy.oo) == 2**n
    assert argmax_bound(2, n, sympy.oo) == 3**n
    assert argmax_bound(k, n, sympy.oo) == (k + 1) ** n
    assert argmax_bound(k, n, length, residual=False) == sympy.Min(k**n, length)
    assert (argmax_bound(12, 12, 10**15), argmax_bound(12, 12, 1024)) == (13**12, 1024)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(("heads", "layers", "length"), SIZES)
def test_it_is_attained(heads: int, layers: int, length: int, residual: bool) -> None:
    want = (heads + residual) ** layers
    assert want <= length
    assert attained(heads, layers, length, residual=residual) == want == argmax_bound(heads, layers, length, residual)


@pytest.mark.parametrize(("heads", "layers", "length"), [(1, 5, 31), (2, 3, 23), (7, 2, 61), (3, 3, 5)])
def test_it_saturates_where_positions_end(heads: int, layers: int, length: int) -> None:
    assert (heads + 1) ** layers > length
    assert attained(heads, layers, length) == length == argmax_bound(heads, layers, length)


def test_without_residual_the_larger_bound_is_not_attained() -> None:
    assert attained(3, 2, 17, residual=False) == 9 < argmax_bound(3, 2, 17)
    assert attained(1, 5, 37, residual=False) == 1


@pytest.mark.parametrize("residual", [True, False])
def test_changing_an_input_says_the_same(residual: bool) -> None:
    heads, layers, length, values = 2, 3, 29, 5
    stack = attaining(heads, layers, length, residual=residual, values=values)
    x = torch.cat([circle(length), torch.rand(length, values, dtype=torch.float64)], -1)
    others = x.expand(length, -1, -1).clone()
    others[torch.arange(length), torch.arange(length), -1] += 1  # copy j differs at position j
    with torch.no_grad():
        moved = (stack(others) != stack(x[None])).any(-1)  # j x i
    assert moved.sum(0).tolist() == [(heads + residual) ** layers] * length


def test_each_layer_multiplies_it() -> None:
    stack, length = attaining(2, 3, 101), 101
    x = torch.cat([circle(length)[None], torch.ones(1, length, 1, dtype=torch.float64)], -1)
    x.requires_grad_()
    counts, out = [], x
    for block in stack.blocks:
        out = block(out)
        (gradient,) = torch.autograd.grad(out[0, -1, -1], x, retain_graph=True)
        counts.append(int((gradient[0, :, -1] != 0).sum()))
    assert counts == [3, 9, 27]


def test_looking_back_attains_it_under_causality_too() -> None:
    seen = torch.ones(1, 29, 1, dtype=torch.float64, requires_grad=True)
    out = attaining(2, 3, 29)(torch.cat([circle(29)[None], seen], -1), Context(causal()))
    assert int((torch.autograd.grad(out[0, -1, -1], seen)[0] != 0).sum()) == 27


@given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 23), st.booleans(), st.integers(0, 10**6))
def test_whatever_the_heads_choose_it_holds(heads: int, layers: int, length: int, residual: bool, seed: int) -> None:
    """Random choices, followed by sets: never more than the bound."""
    draw = torch.Generator().manual_seed(seed)
    seen = [{i} for i in range(length)]
    for _ in range(layers):
        chosen = torch.randint(length, (length, heads), generator=draw).tolist()
        seen = [set().union(*(seen[j] for j in chosen[i] + [i] * residual)) for i in range(length)]
    assert max(map(len, seen)) <= argmax_bound(heads, layers, length, residual)


def block(heads: int, *, causal: bool, cross: int = 0, residual: bool = True) -> BlockConfig:
    attention = AttentionConfig(width=30, heads=heads, causal=causal)
    other = AttentionConfig(width=30, heads=cross) if cross else None
    return BlockConfig(
        attention=attention, cross=other, feedforward=FeedForwardConfig(hidden=7), residual=residual, order="none"
    )


def test_the_bound_of_models_by_hand() -> None:
    language = LanguageConfig(
        vocabulary=11, length=101, stack=StackConfig(block=block(3, causal=True, residual=False), layers=2)
    )
    assert reach(language).bound == 9
    translation = Seq2SeqConfig(
        vocabulary=11,
        encoder=StackConfig(block=block(2, causal=False), layers=1),
        decoder=StackConfig(block=block(1, causal=True, cross=5), layers=2),
    )
    # own: 2² = 4; of the source 2 · 5 + 5 = 15 annotations, each of which knows 3 words
    assert reach(translation, 101, source=101).bound == 4 + 45
    assert reach(translation, 3, source=43).bound == 3 + 43


def test_sizes_that_cannot_be() -> None:
    for sizes in ((0, 2, 3), (2, 0, 3), (2, 3, 0)):
        with pytest.raises(ValueError, match="at least one head, one layer and one position"):
            argmax_bound(*sizes)
