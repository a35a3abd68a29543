"""Hard attention: one key a head. Against plain loops, as a limit of softmax, under masks, and in its gradients."""

import pytest
import torch

from headway.config import Softmax
from headway.ops.attention import MECHANISMS, attend_call, hard, softmax
from headway.ops.attention.hard import Hard
from headway.ops.mask import allowed, causal, padding
from tests.ops.attention.calls import build

B, G, H, L, M, K, W = 2, 3, 6, 5, 7, 11, 13


def call(mask=None, mechanism=None, **rest):
    q, k, v = (torch.randn(shape, dtype=torch.float64) for shape in ((B, H, L, K), (B, G, M, K), (B, G, M, W)))
    return build(q, k, v, mask=mask, mechanism=mechanism or Hard(), options={}, **rest)


def table() -> torch.Tensor:
    found = torch.rand(B, H, L, M) < 0.4
    found[0, 0, 0] = False  # a row that may see nothing
    return found


def by_loop(given, seen):
    out = torch.zeros(B, H, L, W, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(L):
                keys = [j for j in range(M) if seen[b, h, i, j]]
                score = {j: float(given.q[b, h, i] @ given.k[b, h // (H // G), j]) for j in keys}
                if keys:
                    out[b, h, i] = given.v[b, h // (H // G), max(score, key=score.__getitem__)]
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_the_best_key_is_looked_up(masked: bool) -> None:
    seen = table() if masked else torch.ones(B, H, L, M, dtype=torch.bool)
    given = call(allowed(seen) if masked else None)
    torch.testing.assert_close(hard.attend(given), by_loop(given, seen), rtol=0, atol=0)
    torch.testing.assert_close(hard.reference(given), by_loop(given, seen), rtol=0, atol=0)


def test_it_is_the_limit_of_softmax() -> None:
    mask = allowed(table())
    torch.manual_seed(1)
    given = call(mask, scale=1.0)
    torch.manual_seed(1)
    sharp = call(mask, Softmax(), scale=1e9)
    torch.testing.assert_close(softmax.attend(sharp), hard.attend(given), rtol=0, atol=1e-12)
    torch.testing.assert_close(softmax.weights(sharp), hard.weights(given), rtol=0, atol=1e-12)


def test_a_bias_moves_the_choice_and_the_first_of_equals_is_taken() -> None:
    bias = torch.zeros(1, 1, 1, M, dtype=torch.float64)
    bias[..., 4] = 1e6
    assert hard.weights(call(bias=bias))[..., 4].eq(1).all()
    given = call()
    given.k.fill_(0.0)
    assert hard.weights(given)[..., 0].eq(1).all()


def test_gradients_go_to_the_chosen_value_alone() -> None:
    given = call()
    for x in (given.q, given.k, given.v):
        x.requires_grad_()
    hard.attend(given).sum().backward()
    assert given.q.grad is None and given.k.grad is None
    counts = hard.weights(given).unflatten(1, (G, H // G)).sum((2, 3))  # B G M: how often each key was chosen
    torch.testing.assert_close(given.v.grad, counts[..., None].expand(-1, -1, -1, W))


def test_what_may_not_be_seen_never_arrives() -> None:
    given = call(padding(lengths=[3, 5], total=M))
    want = hard.attend(given)
    given.k[0, :, 3:], given.v[0, :, 3:] = float("nan"), float("nan")
    assert torch.equal(hard.attend(given), want) and torch.equal(hard.reference(given), want)


def test_causality_by_position() -> None:
    q = torch.randn(1, 1, M, K, dtype=torch.float64)
    given = build(q, q, q, mask=causal(), mechanism=Hard(), options={})
    assert torch.equal(hard.weights(given).triu(1), torch.zeros(1, 1, M, M, dtype=torch.float64))


def test_it_is_no_mechanism_of_the_table() -> None:
    assert "hard" not in MECHANISMS
    with pytest.raises(ValueError, match="Hard is the spec of no mechanism"):
        attend_call(call())
