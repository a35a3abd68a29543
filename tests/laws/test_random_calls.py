"""Random calls of `attend` and `weights`, with gradients, against the equations in float64.

All mechanisms, masks of every kind and their combinations, four dtypes, any strides, positions that are counted or
given, axes of size 0, numbers from 1e-18 to 1e5, and NaN or infinity in keys that nobody sees. `make test-thorough`
tries 100,000 calls of each function, and every day some hundred are tried.
"""

import pytest
import torch
from torch import Tensor

import headway as hw
from headway.ops.attention import MECHANISMS
from tests.laws.random_calls import EXPECTED, RandomCall, draw, expected
from tests.thorough import THOROUGH

SHARES = 10  # tests, so that several workers share them
CALLS = 100_000 if THOROUGH else 360
LOST = 0.1  # beyond so much rounding nothing can be said of a number


def test_every_mechanism_has_its_equation() -> None:
    assert [name for name in MECHANISMS if name not in EXPECTED] == []


@pytest.mark.parametrize("share", range(SHARES))
def test_attend_weights_and_their_gradients_are_those_of_the_equation(share: int) -> None:
    for number in range(share, CALLS, SHARES):
        made = draw(number)
        wrong = difference(made)
        assert wrong is None, f"call {number}: {wrong} ({described(made)})"


def described(made: RandomCall) -> str:
    shapes = {name: (tuple(value.shape), value.stride()) for name, value in made.tensors.items()}
    plain = {name: value for name, value in made.options.items() if not isinstance(value, Tensor)}
    return f"{made.mechanism} {made.q.dtype} {shapes} {plain}"


def difference(made: RandomCall) -> str | None:
    """What is not as the equation says, in a few words; None where everything is."""
    ours = {name: value.detach().requires_grad_() for name, value in made.tensors.items()}
    exact = {name: _finite(value.detach()).double().requires_grad_() for name, value in made.tensors.items()}
    plain = {name: value for name, value in made.options.items() if name not in ours}
    given = {"mechanism": made.mechanism, **plain, **{name: ours[name] for name in ours if name not in "qkv"}}
    output, weights, largest = expected(made, exact)
    allowance, (lost, _) = _allowance(made, float(largest)), made.lost
    sizes = {"attend": made.v.shape[3] * float(_most(exact["v"])), "weights": float(weights.shape[3])}
    for name, function, wanted in (("attend", hw.attend, output), ("weights", hw.weights, weights)):
        found = function(ours["q"], ours["k"], ours["v"], **given)
        if found.shape != wanted.shape:
            return f"{name} has shape {tuple(found.shape)}, not {tuple(wanted.shape)}"
        most = float(_most(exact["v"])) if name == "attend" else 1.0
        if (off := _off(_kept(found, lost), _kept(wanted, lost), allowance, most)) is not None:
            return f"{name} is off by {off:.2g}"
        towards = torch.linspace(-1, 1, wanted.numel(), dtype=torch.float64).view(wanted.shape).cos()
        got = torch.autograd.grad(found, list(ours.values()), towards.to(found.dtype), allow_unused=True)
        want = torch.autograd.grad(wanted, list(exact.values()), towards, allow_unused=True, retain_graph=True)
        for key, one, other in zip(ours, got, want, strict=True):
            one, other = _comparable(made, key, one, other)
            bound = _bound(made, exact, key, sizes[name]) + float(_most(other))
            if (off := _off(one, other, allowance, bound)) is not None:
                return f"the gradient of {name} for {key} is off by {off:.2g}"
    return None


def _kept(x: Tensor, lost: Tensor) -> Tensor:
    """Without the rows of which nothing is expected; the rows of a matrix between channels are no queries."""
    return x if not bool(lost.any()) else x.masked_fill(lost[..., None], 0)


def _comparable(made: RandomCall, name: str, one: Tensor | None, other: Tensor | None) -> tuple[Tensor, Tensor]:
    """Two gradients where both are known: of a query that sees no spoilt key, of a key that such queries alone see."""
    shape, (rows, keys) = made.tensors[name].shape, made.lost
    one = torch.zeros(shape, dtype=made.q.dtype) if one is None else one
    other = torch.zeros(shape, dtype=torch.float64) if other is None else other
    if not bool(rows.any()):
        return one, other
    gone = rows[..., None] if name == "q" else keys[..., None] if name in "kv" else torch.ones((), dtype=torch.bool)
    return one.masked_fill(gone, 0), other.masked_fill(gone, 0)


def _finite(x: Tensor) -> Tensor:
    """What nobody sees may be anything; the largest number that there is would overflow in a product with 0."""
    return torch.where(x.isfinite() & (x.abs() < torch.finfo(x.dtype).max), x, 0.0)


def _off(found: Tensor, wanted: Tensor, allowance: float, size: float) -> float | None:
    """By how much two results differ, in units of `size`, where that is more than rounding."""
    if not bool(found.isfinite().all()):
        return float("inf")
    if allowance > LOST:
        return None
    worst = float(_most(found.double() - wanted))
    return None if worst <= allowance * size + torch.finfo(found.dtype).tiny else worst / (size or 1.0)


def _most(x: Tensor) -> Tensor:
    return x.detach().abs().max() if x.numel() else torch.zeros(())


def _allowance(made: RandomCall, largest: float) -> float:
    """Rounding of the scores becomes that of the weights as it is, not relative to their size."""
    inner = torch.finfo(torch.promote_types(made.q.dtype, torch.float32)).eps
    outer = torch.finfo(made.q.dtype).eps
    return 256 * inner * (1 + largest) + (8 * outer if outer > inner else 0.0)


def _bound(made: RandomCall, exact: dict[str, Tensor], name: str, through: float) -> float:
    """How large a gradient may be: what rounding is measured by, since its terms may cancel."""
    batch, heads, queries, width = made.q.shape
    rows = batch * heads * queries
    usual = 1.0 if made.mechanism == "additive" else width**-0.5 * (queries if made.mechanism == "channel" else 1)
    scores = through * abs(made.options.get("scale", usual))
    inner = {one: float(_most(exact["vector" if "vector" in exact else one])) for one in "qk"}
    return {"q": scores * inner["k"], "k": scores * rows * inner["q"], "v": 1.0 * rows, "bias": through * rows,
            "vector": scores * rows}[name]  # fmt: skip
