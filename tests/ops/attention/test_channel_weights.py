"""The matrix of channel attention is channels by channels, through the public function too."""

import torch

from headway.ops.attention import attend, weights


def test_channels_by_channels() -> None:
    q, k, v = (torch.randn(2, 3, 11, 5, dtype=torch.float64) for _ in range(3))
    found = weights(q, k, v, mechanism="channel")
    assert found.shape == (2, 3, 5, 5)
    torch.testing.assert_close(v @ found.mT, attend(q, k, v, mechanism="channel"), rtol=0, atol=1e-12)
    assert weights(q, k, v, mechanism="channel", rows=slice(1, 3), heads=slice(2, 3)).shape == (2, 1, 2, 5)
