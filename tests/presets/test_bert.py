"""BERT's published sizes: parameters counted without allocating them."""

import pytest

from headway.models import count
from headway.presets.bert import PRESETS, bert

# The bare model with its pooler, as the model cards count.
BARE = {
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "minilm-l6": 22_713_216,
}
# arXiv:1908.08962 counts millions with the two heads of pre-training.
PAPER = {"bert-tiny": 4.4, "bert-mini": 11.3, "bert-small": 29.1, "bert-medium": 41.7, "bert-base": 110.1}


def test_every_preset_has_its_published_count() -> None:
    assert {name: count(make()) for name, make in PRESETS.items()} == BARE


@pytest.mark.parametrize("name", PAPER)
def test_with_the_heads_of_pre_training_the_paper_counts_the_same(name: str) -> None:
    heads = {"words": True, "adjacent": True}
    assert round(count(PRESETS[name]().model_copy(update=heads)) / 1e6, 1) == PAPER[name]


def test_the_count_is_the_sum_of_its_parts() -> None:
    """V D + P D + T D + 2 D, per layer 4 (D² + D) + 2 D F + F + D + 4 D, and the pooler D² + D."""
    v, p, t, d, f, n = 19, 13, 3, 22, 7, 5
    whole = (v + p + t + 2) * d + n * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d) + d * d + d
    found = bert(width=d, heads=2, layers=n, hidden=f, vocabulary=v, length=p, types=t)
    assert count(found) == whole
    assert count(found.model_copy(update={"classes": 3})) == whole + 3 * (d + 1)


def test_sizes_are_those_of_the_papers() -> None:
    sizes = {name: (make().stack.layers, make().stack.block.width, make().stack.block.attention.heads)
             for name, make in PRESETS.items()}  # fmt: skip
    assert sizes == {
        "bert-tiny": (2, 128, 2),
        "bert-mini": (4, 256, 4),
        "bert-small": (4, 512, 8),
        "bert-medium": (8, 512, 8),
        "bert-base": (12, 768, 12),
        "bert-large": (24, 1024, 16),
        "minilm-l6": (6, 384, 12),
    }
