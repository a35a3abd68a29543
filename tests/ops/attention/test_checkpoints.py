"""Fast paths under the modes of others: recomputation, passes without gradients, counters."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from headway.ops.attention import attend
from headway.ops.attention.kernels.sdpa import trusted
from headway.ops.mask import Mask, causal, padding, window


def test_the_canary_sings_where_no_gradient_may_be_taken() -> None:
    """A first masked call in a decoding loop must not send all later ones of the process the slow way."""
    trusted.cache_clear()
    with torch.inference_mode():
        assert trusted("cpu", torch.float32)


@pytest.mark.parametrize(
    ("mask", "options"),
    [
        (causal() & padding(lengths=[500], total=509), {}),
        (causal() & window(40), {}),
        (causal(), {"softcap": 5.0}),
    ],
    ids=["padding", "tiles", "cap"],
)
def test_a_recomputed_pass_has_the_same_gradients(mask: Mask, options: dict[str, float]) -> None:
    trusted.cache_clear()  # so that its song falls into the pass that is recomputed
    q, k, v = (torch.randn(1, 2, 509, 5, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, mask=mask, softcap=options.get("softcap"))

    wanted = torch.autograd.grad(run(q, k, v).square().sum(), (q, k, v))
    trusted.cache_clear()
    again = checkpoint(run, q, k, v, use_reentrant=False)
    assert isinstance(again, torch.Tensor)
    for one, other in zip(torch.autograd.grad(again.square().sum(), (q, k, v)), wanted, strict=True):
        torch.testing.assert_close(one, other)
