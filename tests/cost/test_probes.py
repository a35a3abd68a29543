"""What the machine is measured with: a call can be made as often as its time needs."""

import pytest
import torch

from headway.cost.time.probes import PROBES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_update_can_be_repeated_for_ever(dtype: torch.dtype) -> None:
    _, step = PROBES["update/forward"].make(dtype, bytes=64.0)
    for _ in range(3_000):
        step()
