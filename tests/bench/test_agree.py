from math import inf, nan

import pytest
import torch

from headway.bench.agree import Disagreement, agree, deviation


def test_disagreement_names_the_two_and_the_largest_deviation():
    right = torch.linspace(1, 4, 7)
    wrong = right.clone()
    wrong[3] += 1.0
    with pytest.raises(Disagreement, match=r"headway and torch disagree: largest deviation 0\.25"):
        agree({"torch": right, "numpy": right.clone(), "headway": wrong})


@pytest.mark.parametrize(
    ("dtype", "small", "large"), [("float64", 1e-11, 1e-9), ("float32", 2e-5, 2e-4), ("bfloat16", 0.008, 0.1)]
)
def test_the_tolerance_follows_the_dtype(dtype, small, large):
    right = torch.ones(5, dtype=getattr(torch, dtype))
    assert agree({"a": right, "b": right + small}).deviation == pytest.approx(small, rel=0.1)
    with pytest.raises(Disagreement):
        agree({"a": right, "b": right + large})


def test_the_coarser_dtype_of_the_two_decides():
    right = torch.full((5,), 1.001, dtype=torch.float64)
    assert agree({"equation": right, "headway": right.bfloat16()}).tolerance == 3e-2


def test_every_output_counts_not_only_the_first():
    value, gradient = torch.ones(3), torch.ones(5)
    with pytest.raises(Disagreement, match="largest deviation 1"):
        agree({"a": (value, gradient), "b": (value, 2 * gradient)})


def test_a_missing_output_or_another_shape_disagrees_and_says_the_shapes():
    with pytest.raises(Disagreement, match=r"inf.*\[\(2, 3\)\] and \[\(3, 2\)\]"):
        agree({"a": torch.ones(3, 2), "b": torch.ones(2, 3)})
    with pytest.raises(Disagreement):
        agree({"a": (torch.ones(3),), "b": ()})


@pytest.mark.parametrize("bad", [nan, inf])
def test_a_nan_or_inf_on_one_side_is_infinitely_far(bad):
    right, wrong = torch.ones(3), torch.tensor([1.0, bad, 1.0])
    assert deviation(wrong, right) == inf
    assert deviation(right, wrong) == inf
    assert deviation(wrong, wrong.clone()) == 0.0


def test_zeros_agree_with_zeros_only():
    assert deviation(torch.zeros(3), torch.zeros(3)) == 0.0
    assert deviation(torch.tensor([1e-30]), torch.zeros(1)) == inf
    assert deviation(torch.empty(0), torch.empty(0)) == 0.0
