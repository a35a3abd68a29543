"""Published sizes of encoder-decoders: parameters counted without allocating them, against published numbers."""

import pytest

from headway.hub.family import Entry, family_named
from headway.hub.parts import parts_of
from headway.models import count, on_meta
from headway.presets import preset
from headway.presets.seq2seq import PRESETS

PUBLISHED = {
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "t5-v1.1-small": 76_961_152,
    "t5-v1.1-base": 247_577_856,
    "t5-v1.1-large": 783_150_080,
    "t5-v1.1-xl": 2_849_757_184,
    "t5-v1.1-xxl": 11_135_332_352,
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
    # Others count 74,410,496: with two tables of 512 sinusoids, and without the bias of the logits, which is learned.
    "marian-base": 74_410_496 - 2 * 512 * 512 + 58_101,
}
FLAN = {name: name.replace("t5-v1.1", "flan-t5") for name in PUBLISHED if "v1.1" in name}


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_published_parameter_counts(name: str, parameters: int) -> None:
    assert count(preset(name)) == parameters


def test_every_preset_is_counted() -> None:
    assert set(PRESETS) == {*PUBLISHED, *FLAN.values(), "rnnsearch"}  # whose paper counts nothing
    assert all(preset(flan.replace("-", "_")) == preset(name) for name, flan in FLAN.items())


@pytest.mark.parametrize("name", ["t5-small", "t5-v1.1-small", "bart-base", "marian-base"])
def test_its_family_can_say_all_of_it(name: str) -> None:
    """Written as config.json and read again it is the same; the key table names every parameter once."""
    config = PRESETS[name]()
    family = family_named(config.family)
    entries = [row for row in family.table(config) if isinstance(row, Entry)]
    assert family.read(family.write(config), frozenset(row.theirs for row in entries)) == config
    ours = [name for row in entries for name in row.names]
    assert sorted(ours) == sorted(parts_of(on_meta(config)))


def test_marian_by_hand() -> None:
    """58,101 words of 512; per layer 4 maps of an attention, 2 of the feed-forward, and norms."""
    attention, feedforward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + feedforward + 2 * norm, 2 * attention + feedforward + 3 * norm
    assert count(preset("marian-base")) == 58_101 * 512 + 6 * (encoder + decoder) + 58_101
