"""The exact reach under masks, against sets followed by plain loops, and numbers worked out by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest
import sympy
import torch

from headway.config import (
    AttentionConfig,
    BlockConfig,
    Channel,
    DaViTConfig,
    FeedForwardConfig,
    Frozen,
    LanguageConfig,
    Linear,
    Local,
    MaskedConfig,
    RecurrentConfig,
    SentenceConfig,
    Seq2SeqConfig,
    Softmax,
    Spatial,
    Spec,
    StackConfig,
    VisionConfig,
)
from headway.cost.reach import Reach, reach
from headway.cost.reach import sets as reach_sets
from headway.cost.reach.masks import selected_layers
from headway.cost.reach.models import Texts, layers_of
from headway.cost.reach.sets import Axis, Boxes, TableSets
from headway.ops.attention import MECHANISMS
from headway.ops.mask import allowed, packed, padding
from headway.presets import preset

Sees = Callable[[int, int], bool]


def stack(
    mechanism: Frozen, *, causal: bool, layers: int = 3, residual: bool = True, cross: bool = False
) -> StackConfig:
    attention = AttentionConfig(width=15, heads=3, causal=causal, mechanism=mechanism)
    other = AttentionConfig(width=15, heads=5) if cross else None
    block = BlockConfig(
        attention=attention, cross=other, feedforward=FeedForwardConfig(hidden=17), residual=residual, order="none"
    )
    return StackConfig(block=block, layers=layers)


def language(mechanism: Frozen | None = None, **rest) -> LanguageConfig:
    return LanguageConfig(vocabulary=19, length=31, stack=stack(mechanism or Softmax(), causal=True, **rest))


def masked(mechanism: Frozen | None = None, **rest) -> MaskedConfig:
    return MaskedConfig(vocabulary=19, length=31, stack=stack(mechanism or Softmax(), causal=False, **rest))


def by_loops(sees: Sees, length: int, layers: int) -> list[list[set[int]]]:
    """Boolean powers of a relation, as sets, without any of headway."""
    seen, found = [{i} for i in range(length)], []
    for _ in range(layers):
        seen = [set().union(*(seen[j] for j in range(length) if sees(i, j))) for i in range(length)]
        found.append(seen)
    return found


def sets_of(config: Frozen, length: int, part: str = "stack", mask=None) -> list[list[set[int]]]:
    layers = [layer for layer in layers_of(config, Texts(length, length, mask)) if layer.part == part]
    return [[set(row.nonzero()[:, 0].tolist()) for row in layer.sets.table] for layer in layers]


def near(i: int, j: int, window: int, step: int = 1) -> bool:
    return (i - j) % step == 0 and abs(i - j) <= (window - 1) * step


def on_grid(columns: int, rule: Callable[[int, int, int, int], bool]) -> Sees:
    return lambda i, j: rule(i // columns, i % columns, j // columns, j % columns)


PATTERNS: dict[str, tuple[Frozen, Sees]] = {
    "softmax": (Softmax(), lambda i, j: True),
    "linear": (Linear(), lambda i, j: True),
    "window": (Local(window=3), lambda i, j: near(i, j, 3)),
    "dilated": (Local(window=2, dilation=3), lambda i, j: near(i, j, 2, 3)),
    "selected": (Local(window=2, selected=(4, 11)), lambda i, j: near(i, j, 2) or i in (4, 11) or j in (4, 11)),
    "selected, none within": (Local(window=2, selected=(99,)), lambda i, j: near(i, j, 2)),
    "grid": (
        Local(window=(2, 3), grid=(5, 7)),
        on_grid(7, lambda y, x, row, column: abs(y - row) < 2 and abs(x - column) < 3),
    ),
    "dilated grid": (
        Local(window=2, dilation=(2, 3), grid=(5, 7)),
        on_grid(7, lambda y, x, row, column: near(y, row, 2, 2) and near(x, column, 2, 3)),
    ),
    "tiles": (
        Spatial(grid=(5, 7), window=(2, 3)),
        on_grid(7, lambda y, x, row, column: y // 2 == row // 2 and x // 3 == column // 3),
    ),
    "whole grid": (Spatial(grid=(5, 7)), lambda i, j: True),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_both_ways(name: str) -> None:
    spec, sees = PATTERNS[name]
    assert sets_of(masked(spec), 35) == by_loops(sees, 35, 3)
    assert sets_of(language(spec), 35) == by_loops(lambda i, j: j <= i and sees(i, j), 35, 3)


def test_ranges_are_not_tabulated(monkeypatch) -> None:
    """Any length in O(L): with tables forbidden, all but selected positions still answer."""
    monkeypatch.setattr(reach_sets, "LONGEST", 0)
    for name in ("softmax", "window", "dilated", "grid", "dilated grid", "tiles"):
        layers = layers_of(masked(PATTERNS[name][0]), Texts(35, 35))
        assert all(isinstance(layer.sets, Boxes) for layer in layers), name


@pytest.mark.parametrize(("window", "layers", "length"), [(5, 3, 29), (2, 7, 11), (3, 5, 7), (1, 3, 5)])
def test_the_formula_of_a_causal_window(window: int, layers: int, length: int) -> None:
    """n layers of a window w see min(i + 1, n (w - 1) + 1) tokens."""
    found = layers_of(language(Local(window=window), layers=layers), Texts(length, length))[-1].sets.counts
    assert found.tolist() == [min(i + 1, layers * (window - 1) + 1) for i in range(length)]


def test_a_layer_fewer_does_not_see_the_first_token() -> None:
    enough, fewer = (layers_of(language(Local(window=5), layers=layers), Texts(29, 29))[-1].sets for layers in (7, 6))
    assert enough.table[28, 0] and not fewer.table[28, 0]
    assert reach(language(Local(window=5), layers=7), 29).full_from == 7
    assert reach(language(Local(window=5), layers=6), 29).full_from is None


def test_mistral_at_its_length_is_quick_and_exact() -> None:
    found = reach(preset("mistral-7b"))
    assert [layer.largest for layer in found.layers[:3]] == [4096, 8191, 12286]
    assert found.full_from == 9 and found.layers[8].largest == 32768
    assert found.layers[0].mean == (sum(range(1, 4096)) + 4096 * (32768 - 4095)) / 32768


def test_gpt2_bert_and_vit_see_all_at_once() -> None:
    gpt2, bert, vit = (reach(preset(name)) for name in ("gpt2", "bert-base", "vit-b16"))
    assert (gpt2.full_from, bert.full_from, vit.full_from) == (1, 1, 1)
    first = gpt2.layers[0]
    assert (first.smallest, first.largest, first.mean, first.inputs) == (1, 1024, 512.5, 1024)
    assert (bert.layers[0].smallest, vit.layers[0].smallest, vit.unit) == (512, 196, "patch")


def test_padding_is_no_input_wherever_it_stands() -> None:
    keep = torch.tensor([[False] * 3 + [True] * 7 + [False] * 2])
    for config in (language(Local(window=3)), masked(Local(window=2, selected=(2,)))):
        assert sets_of(config, 12, mask=padding(keep=keep)) == sets_of(config, 7)


def test_a_hole_keeps_its_place() -> None:
    keep = torch.tensor([[True, True, False, True, True]])
    real = [0, 1, 3, 4]
    want = by_loops(lambda i, j: abs(real[i] - real[j]) < 2, 4, 3)
    assert sets_of(masked(Local(window=2)), 5, mask=padding(keep=keep)) == want


def test_packed_texts_never_see_each_other() -> None:
    text = [0] * 5 + [1] * 7 + [2] * 3
    want = by_loops(lambda i, j: text[i] == text[j] and near(i, j, 2), 15, 3)
    assert sets_of(masked(Local(window=2)), 15, mask=packed([5, 7, 3])) == want
    assert reach(masked(), 15, mask=packed([5, 7, 3])).full_from is None


def test_between_channels_all_positions_meet_unless_a_group_has_one() -> None:
    wide = masked(Channel())
    assert reach(wide, 13).full_from == 1 and reach(wide, 13).bound is None
    attention = AttentionConfig(width=5, heads=5, mechanism=Channel())
    single = MaskedConfig(vocabulary=19, length=31, stack=StackConfig(block=BlockConfig(attention=attention), layers=2))
    assert [layer.largest for layer in reach(single, 13).layers] == [1, 1]


def test_an_encoder_decoder() -> None:
    config = Seq2SeqConfig(
        vocabulary=19,
        encoder=stack(Local(window=2), causal=False, layers=2),
        decoder=stack(Local(window=3), causal=True, layers=2, cross=True),
    )
    assert sets_of(config, 11, "encoder") == by_loops(lambda i, j: near(i, j, 2), 11, 2)
    assert sets_of(config, 11, "decoder") == by_loops(lambda i, j: j <= i and near(i, j, 3), 11, 2)
    assert sets_of(config, 11, "source") == [[set(range(11))] * 11] * 2
    found = reach(config, 11, source=7)
    assert [(layer.part, layer.number, layer.inputs) for layer in found.layers] == [
        ("encoder", 1, 7), ("encoder", 2, 7), ("decoder", 1, 11), ("decoder", 2, 11), ("source", 1, 7),
        ("source", 2, 7),
    ]  # fmt: skip
    assert found.full_from is None and reach(config, 5, source=7).full_from == 2


def test_bahdanau() -> None:
    both = RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5)
    one_way = RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5, bidirectional=False)
    assert [layer.smallest for layer in reach(both, 5, source=7).layers] == [7, 1, 7]
    assert [layer.smallest for layer in reach(one_way, 5, source=7).layers] == [1, 1, 7]
    assert reach(both, 5, source=7).bound is None


def test_a_sentence_encoder_is_its_encoder() -> None:
    encoder = masked(Local(window=2))
    assert reach(SentenceConfig(encoder=encoder, limit=13)).layers == reach(encoder, 13).layers


def test_davit_by_hand() -> None:
    """One axis of 16 pixels: a stem of 3 every 2 gives 8 positions; 3 x 3, windows of 2, 3 x 3."""
    config = DaViTConfig(
        depths=(1,), widths=(6,), heads=(2,), image=(16, 1), window=(2, 1), stem=3, stride=2, classes=0
    )
    stem, spatial, channel = (layer.sets for layer in layers_of(config, Texts(1, 1)))
    assert stem.counts.tolist() == [2, 3, 3, 3, 3, 3, 3, 3]  # pixels 2 p - 1 … 2 p + 1
    # position 3: after the last 3 x 3 from 2, 3, 4; their windows are 2-3 and 4-5; with the first 3 x 3, 1 … 6
    assert spatial.table[3].nonzero()[:, 0].tolist() == list(range(1, 14))
    assert channel.counts.tolist() == [16] * 8
    assert reach(config).full_from == 2 and reach(config).unit == "pixel"


def test_davit_with_groups_of_one_channel_sees_by_convolutions_alone() -> None:
    config = DaViTConfig(depths=(1,), widths=(5,), heads=(5,), image=(1, 101), window=1, stem=1, stride=1, classes=0)
    assert [layer.largest for layer in reach(config).layers] == [1, 5, 9]


@pytest.mark.parametrize(("kernel", "first"), [(2, 36), (3, 35)])
def test_a_grid_that_halves(kernel: Literal[2, 3], first: int) -> None:
    """Two blocks of two 3 x 3 see 4 pixels each way; position 20 of the half grid is of 40, 41, or of 39, 40, 41."""
    config = DaViTConfig(
        depths=(1, 1), widths=(3, 5), heads=(3, 5), image=(1, 101), window=1, stem=1, stride=1, kernel=kernel, classes=0
    )
    third = layers_of(config, Texts(1, 1))[3].sets
    # its own two 3 x 3 see positions 18 … 22 of the half grid, 4 pixels further each way
    assert third.table[20].nonzero()[:, 0].tolist() == list(range(first - 4, 50))


def test_a_class_token_is_no_input() -> None:
    local = Local(window=2, grid=(3, 5), global_tokens=True)
    config = VisionConfig(image=(9, 15), patch=3, stack=stack(local, causal=False, layers=2))
    first, second = layers_of(config, Texts(1, 1))
    assert first.sets.table.shape == (16, 15) and first.sets.counts[:2].tolist() == [15, 4]
    assert second.sets.counts.tolist() == [15] * 16  # through the class token, which saw all


def test_too_long_for_a_table_is_said() -> None:
    found = reach(language(Local(window=2, grid=(2503, 1))), 2503)
    assert found.layers == () and found.full_from is None and found.bound == 64
    assert "2,503 x 2,503" in found.notes[0] and found.sentence() == found.notes[0]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("points", [(4,), (0, 11), (3, 4, 28), (7, 99)])
def test_selected_positions_are_counted_as_the_table_has_them(points: tuple[int, ...], step: int) -> None:
    spec = Local(window=3, dilation=step, selected=points)
    for config in (language(spec), masked(spec)):
        want = [layer.sets.counts for layer in layers_of(config, Texts(29, 29))]
        found = selected_layers(config.stack.block.attention, 29, 3)
        assert [sets.counts.tolist() for sets in found] == [counts.tolist() for counts in want]


def test_selected_positions_of_a_long_text() -> None:
    found = reach(masked(Local(window=257, selected=(0,))), 16411)
    assert [(layer.smallest, layer.largest) for layer in found.layers] == [(258, 16411), (16411, 16411), (16411, 16411)]
    encoder = stack(Local(window=257, selected=(0,)), causal=False, layers=2)
    both = Seq2SeqConfig(vocabulary=19, encoder=encoder, decoder=stack(Softmax(), causal=True, cross=True))
    assert reach(both, 101, source=4099).full_from == 1


class Own(Spec):
    """A mechanism of one's own, whose pattern nobody said."""

    kind: Literal["tests.cost.test_reach:OWN"] = "tests.cost.test_reach:OWN"


OWN = replace(MECHANISMS["softmax"], name="own", spec=Own, pattern=None)


def test_what_cannot_be_known_or_counted() -> None:
    with pytest.raises(ValueError, match="known to its author alone"):
        reach(language(Own()), 5)
    with pytest.raises(ValueError, match="length is a whole number from 1, not L"):
        reach(language(), sympy.Symbol("L"))
    with pytest.raises(ValueError, match="not 0"):
        reach(language(), 0)
    with pytest.raises(ValueError, match="tells 2 rows of a batch apart"):
        reach(language(), 5, mask=padding(lengths=[3, 5]))
    with pytest.raises(ValueError, match="1 x 1 x 7 x 7 does not broadcast"):
        reach(language(), 5, mask=allowed(torch.ones(7, 7, dtype=torch.bool)))
    with pytest.raises(ValueError, match="does not fit"):
        reach(language(), 5, mask=padding(lengths=[3], total=7))
    with pytest.raises(ValueError, match="causal=False, and no mask but padding"):
        reach(language(Channel()), 5)
    with pytest.raises(ValueError, match="not for davit"):
        reach(preset("davit-tiny"), mask=packed([5]))
    with pytest.raises(ValueError, match="configures no model"):
        reach(Softmax(), 5)


def test_json_and_the_sentence() -> None:
    found = reach(language(Local(window=3)), 5)
    told = json.loads(json.dumps(found.as_json()))
    assert told["bound"] == 5 and told["full_from"] == 2 and told["unit"] == "token"
    assert told["layers"][0] == {
        "part": "stack", "number": 1, "smallest": 1, "largest": 3, "mean": 2.4, "inputs": 5, "full": False,
    }  # fmt: skip
    assert found.sentence() == (
        "after 3 layers a position sees 1 to 5 of 5 tokens, everything it may from layer 2 on; "
        "at most 5 if each head looked at one position alone"
    )
    assert isinstance(found, Reach)


def test_ranges_with_gaps_become_tables() -> None:
    outer = Boxes((Axis(torch.tensor([0, 0]), torch.tensor([1, 2]), 2),))
    inner = Boxes((Axis(torch.tensor([0, 3]), torch.tensor([1, 5]), 5),))
    found = reach_sets.compose(outer, inner)
    assert isinstance(found, TableSets) and found.table.int().tolist() == [[1, 0, 0, 0, 0], [1, 0, 0, 1, 1]]
