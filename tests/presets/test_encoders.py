"""The published sizes of BERT's relatives: parameters counted without allocating them."""

import pytest

from headway.models import count
from headway.presets.encoders import PRESETS, distilbert, roberta

# As transformers counts the bare models.
BARE = {
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "xlm-roberta-large": 559_890_432,
    "distilbert-base": 66_362_880,
    "electra-small": 13_483_008,
    "electra-base": 108_891_648,
    "electra-large": 334_092_288,
    "albert-base": 11_683_584,
    "albert-large": 17_683_968,
    "albert-xlarge": 58_724_864,
    "albert-xxlarge": 222_595_584,
    "mpnet-base": 109_486_464,
    "modernbert-base": 149_014_272,
    "modernbert-large": 394_781_696,
}
SIZES = dict(width=22, heads=2, layers=2, hidden=7, vocabulary=19, length=13)


def test_every_preset_has_its_published_count() -> None:
    assert {name: count(make()) for name, make in PRESETS.items()} == BARE


def test_a_head_is_an_option() -> None:
    bare = count(distilbert(**SIZES))
    assert count(distilbert(**SIZES, classes=3)) == bare + 22 * 23 + 3 * 23
    assert count(distilbert(**SIZES, token_classes=5)) == bare + 5 * 23
    assert count(distilbert(**SIZES, answers=True)) == bare + 2 * 23


def test_positions_are_counted_from_that_of_padding() -> None:
    plain = roberta(**SIZES)
    other = roberta(**SIZES, special=plain.special.replace(pad=4))
    assert count(other) - count(plain) == 3 * 22
    with pytest.raises(ValueError, match="it needs a pad token"):
        roberta(**SIZES, special=plain.special.replace(pad=None))
