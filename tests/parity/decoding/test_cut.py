"""top-k, top-p and min-p keep the tokens that transformers keeps, applied in its order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from headway.ops.sampling.cut import Rules, cut
from headway.ops.sampling.logits import penalise


@given(
    seed=st.integers(0, 9999),
    heat=st.sampled_from([0.5, 1.0, 1.7]),
    k=st.sampled_from([0, 1, 5, 23]),
    p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 0.6]),
)
def test_the_same_tokens_stay(seed: int, heat: float, k: int, p: float, min_p: float) -> None:
    logits = torch.randn(3, 23, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2
    theirs = LogitsProcessorList([TemperatureLogitsWarper(heat)])
    theirs += [TopKLogitsWarper(k)] if k else []
    theirs += [TopPLogitsWarper(p)] if p < 1 else []
    theirs += [MinPLogitsWarper(min_p)] if min_p else []
    right = theirs(torch.zeros(3, 1, dtype=torch.long), logits).isfinite()
    z = ((logits - logits.amax(-1, keepdim=True)) / heat).sort(-1, descending=True)
    line = cut(z.values, Rules([heat] * 3, [k] * 3, [p] * 3, [min_p] * 3), z.values.exp().sum(-1, keepdim=True))
    assert torch.zeros_like(right).scatter(1, z.indices, z.values >= line.level).equal(right)


@pytest.mark.parametrize("penalty", [0.7, 1.0, 1.9])
def test_the_same_penalty(penalty: float) -> None:
    logits, read = torch.randn(2, 11), torch.tensor([[3, 5, 3], [7, 0, 1]])
    found = penalise(logits, read, torch.tensor([penalty] * 2))
    torch.testing.assert_close(found, RepetitionPenaltyLogitsProcessor(penalty)(read, logits))
