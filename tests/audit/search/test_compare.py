"""Results by label, wherever a tensor keeps its axes, and what counts as a difference."""

import pytest
import torch

from headway.adapt.adapter import Reading
from headway.adapt.inputs import SPAN
from headway.audit.search.compare import apart, distances, results_by_label
from headway.audit.search.localise import along

NAN, INF = float("nan"), float("inf")


def test_numbers_that_are_none_differ_from_numbers_alone() -> None:
    one = torch.tensor([1.0, NAN, INF, NAN, INF, -INF])
    two = torch.tensor([1.5, NAN, INF, 2.0, -INF, 3.0])
    assert distances(one, two).tolist() == [0.5, 0.0, 0.0, INF, INF, INF]


def test_labels_and_not_places_decide_what_is_compared() -> None:
    """A reversed row with reversed labels agrees; an unlabelled place may hold anything."""
    labels = torch.tensor([[0, 1, 2]])
    out = torch.tensor([[[1.0], [2.0], [4.0]]])
    before = results_by_label([out], [Reading(labels, labels)], per_position=True)
    turned = results_by_label([out.flip(1)], [Reading(labels, labels.flip(1))], per_position=True)
    assert apart(before, turned).largest == 0.0
    hidden = results_by_label(
        [torch.tensor([[[1.0], [NAN], [5.0]]])], [Reading(labels, torch.tensor([[0, -1, 2]]))], per_position=True
    )
    assert apart(before, hidden).amounts.tolist() == [0.0, 0.25]


def test_pieces_are_joined_and_items_have_one_result() -> None:
    labels = torch.tensor([[0, 1], [SPAN, SPAN + 1]])
    whole = results_by_label([torch.arange(4.0).reshape(2, 2, 1)], [Reading(labels, labels)], per_position=True)
    pieces = [Reading(labels[:, k : k + 1], labels[:, k : k + 1]) for k in range(2)]
    steps = [torch.tensor([[[0.0]], [[2.0]]]), torch.tensor([[[1.0]], [[3.0]]])]
    assert apart(whole, results_by_label(steps, pieces, per_position=True)).largest == 0.0
    padded = Reading(labels, torch.tensor([[-1, 1], [SPAN, -1]]))
    assert results_by_label([torch.tensor([[5.0], [6.0]])], [padded], per_position=False).labels.tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(3, 7, 5), (3, 2, 7, 5), (7, 3, 5), (21, 5), (6, 7, 5), (1, 7, 5), (7,), (3, 5, 7)])
def test_places_are_found_wherever_the_axes_stand(shape: tuple[int, ...]) -> None:
    found = along(torch.zeros(shape), 3, 7)
    assert found is not None and found.shape[:2] == (3, 7)


def test_what_has_no_places_is_left_out() -> None:
    assert along(torch.zeros(5, 4), 3, 7) is None
