"""What a layer holds is what was asked for, packed as its size demands, and nothing else is computed."""

import numpy as np
import pytest
import torch

from headway.config import Additive, AttentionConfig, Channel, Linear, Local, Spatial
from headway.look import layer
from headway.look.layer import layer_of
from headway.look.packed import Factors, Weights
from headway.look.record import Layer, Side
from headway.nn.attention import Attention
from headway.observe.attention import captured
from headway.observe.weights import Selection
from tests.look.measure.written import Written, WrittenParts

H, L, M, K = 3, 13, 17, 5
SIDES = (Side("source", tuple(map(str, range(M)))), Side("target", tuple(map(str, range(L)))))


def made(**more: object) -> WrittenParts:
    return WrittenParts(torch.randn(H, L, K), torch.randn(H, M, K), **more)  # type: ignore[arg-type]


def of(attention: Written, **more: object) -> Layer:
    return layer_of(attention, label="2", kind="cross", queries=1, keys=0, sides=SIDES, **more)  # type: ignore[arg-type]


def test_only_what_is_wanted_is_computed() -> None:
    attention = Written(made().weights()[None])
    found = of(attention, selection=Selection(heads=(2, 0), rows=(4, 7)))
    assert {heads for _, heads in attention.asked} == {(2, 0)}
    assert [row for rows, _ in attention.asked for row in rows] == list(range(4, 11))
    assert found.heads == (2, 0) and found.rows == (4, 7)
    assert isinstance(found.data, Weights)
    expected = attention.values[0][[2, 0], 4:11].numpy()
    np.testing.assert_allclose(found.data.values, expected, rtol=1e-3, atol=1e-7)
    assert found.maps.shape == (2, 7, M) and len(found.measures) == 2
    largest = attention.values[0, 2, 4:11].amax(-1).mean().item()
    assert found.measures[0].largest == pytest.approx(largest, abs=1e-12)


def test_rows_are_gone_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Written(made().weights()[None])
    whole = of(attention)
    monkeypatch.setattr(layer, "NUMBERS", 4 * H * M + 1)
    attention.asked.clear()
    parts = of(attention)
    assert [len(rows) for rows, _ in attention.asked] == [4, 4, 4, 1]
    np.testing.assert_array_equal(parts.maps, whole.maps)
    for one, other in zip(parts.measures, whole.measures, strict=True):
        assert one.entropy == pytest.approx(other.entropy, abs=1e-12) and one.views == pytest.approx(other.views)


def test_of_a_long_text_rows_at_even_distances_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only where weights need not be packed: every one of them would have to be computed."""
    parts = made(table=torch.rand(1, L, M) < 0.6)
    attention = Written(parts.weights()[None], parts)
    whole = of(attention)
    monkeypatch.setattr(layer, "ROWS", 4)
    attention.asked.clear()
    assert of(attention).measures == whole.measures and len(attention.asked[0][0]) == L
    attention.asked.clear()
    monkeypatch.setattr(layer, "NUMBERS", 2 * H * M)
    found = of(attention, budget=1e3)
    assert [row for rows, _ in attention.asked for row in rows] == [0, 3, 6, 9, 12]
    assert isinstance(found.data, Factors) and found.data.row(1, 7) == pytest.approx(
        attention.values[0, 1, 7], abs=1e-3
    )
    some = attention.values[0, :, ::3]
    assert found.measures[2].largest == pytest.approx(some[2].amax(-1).mean().item(), abs=1e-12)
    expected = some[1].div(some[1].max()).mul(255).round().to(torch.uint8)
    np.testing.assert_array_equal(found.maps[1][::3], expected)
    assert (found.maps[1][1::3] == 0).all()


@pytest.mark.parametrize(
    "parts",
    [
        made(),
        made(softcap=2.0, bias=torch.randn(H, L + M - 1)),
        made(table=torch.rand(1, L, M) < 0.6),
        made(table=torch.rand(H, L, M) < 0.6),
        made(causal=True),
    ],
    ids=["plain", "cap and bias", "a mask", "a mask for each head", "causal"],
)
def test_what_is_too_large_is_packed_as_queries_and_keys(parts: WrittenParts) -> None:
    """Here with sizes where that is smaller in truth: one channel."""
    parts.q, parts.k = parts.q[..., :1], parts.k[..., :1]
    attention = Written(parts.weights()[None].nan_to_num(), parts)
    found = of(attention, budget=400, selection=Selection(heads=(2, 1), rows=(3, 7)))
    assert isinstance(found.data, Factors) and found.data.first == 3
    for place, head in enumerate((2, 1)):
        for row in range(7):
            expected = attention.values[0, head, 3 + row].numpy()
            np.testing.assert_allclose(found.data.row(place, row), expected, atol=2e-4)


def test_keys_that_may_be_seen_are_those_of_the_mask_not_those_with_weight() -> None:
    """A weight that underflows to 0 is still of a key that the row may see."""
    values = torch.zeros(1, 1, L, M)
    values[..., 0] = 1.0
    allowed = of(Written(values, made(table=torch.ones(1, L, M, dtype=torch.bool)))).measures[0]
    assert allowed.chance["first"] == pytest.approx(1 / M) and allowed.views["first"] == 1.0
    assert of(Written(values)).measures[0].views == {}  # nothing else may be seen, as far as is known


def test_a_size_beyond_all_bounds_is_refused_before_anything_is_computed() -> None:
    attention = Written(made().weights()[None])
    with pytest.raises(ValueError, match=r"attention has 3 heads of 13 x 17 weights.*--layers, --heads or --rows"):
        of(attention, budget=100)
    assert attention.asked == []


def test_what_is_not_there_cannot_be_asked_for() -> None:
    attention = Written(made().weights()[None])
    with pytest.raises(ValueError, match="rows 0 to 12, and none of those asked for"):
        of(attention, selection=Selection(rows=(13, 2)))
    with pytest.raises(ValueError, match="heads 0 to 2"):
        of(attention, selection=Selection(heads=(3,)))
    with pytest.raises(ValueError, match="from 13 places to 17, and there are 17 and 17 tokens"):
        layer_of(attention, label="1", kind="encoder", queries=0, keys=0, sides=SIDES)
    attention.values[0, 1, 5, 7] = torch.nan
    with pytest.raises(ValueError, match="no numbers"):
        of(attention)


def test_a_thin_diagonal_is_as_strong_in_a_small_map() -> None:
    count = 509
    side = Side("text", tuple(map(str, range(count))))
    values = torch.eye(count)[None, None] * 0.9 + 0.1 / count
    found = layer_of(Written(values), label="1", kind="encoder", queries=0, keys=0, sides=(side,))
    (small,) = found.maps
    assert small.shape == (48, 48)
    assert small.diagonal().min() >= 200 and np.triu(small, 2).max() < 10
    # Beside it, a row that weighs one key of each ten alike: the points that hold one are as strong as each other.
    comb = torch.zeros(count, count)
    comb[:, ::10] = 1 / 51
    found = layer_of(Written(comb[None, None]), label="1", kind="encoder", queries=0, keys=0, sides=(side,))
    assert found.maps.min() == 255


def test_a_small_map_has_every_weight_where_there_is_room() -> None:
    attention = Written(made().weights()[None])
    values = attention.values[0].numpy()
    expected = np.rint(values / values.max((1, 2), keepdims=True) * 255)
    assert np.abs(of(attention).maps - expected).max() <= 1


MECHANISMS = {
    "softmax": AttentionConfig(width=21, heads=3, causal=True),
    "local": AttentionConfig(width=21, heads=3, mechanism=Local(window=3)),
    "spatial": AttentionConfig(width=21, heads=3, mechanism=Spatial(grid=(3, 5), window=3)),
    "linear": AttentionConfig(width=21, heads=3, mechanism=Linear(), causal=True),
    "channel": AttentionConfig(width=21, heads=3, mechanism=Channel()),
    "additive": AttentionConfig(width=21, heads=3, mechanism=Additive()),
}


@pytest.mark.parametrize("budget", [2**20, 1000])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_of_a_running_model(name: str, budget: int) -> None:
    """What is packed is what the mechanism itself says; a small budget leaves queries and keys where there are some."""
    model, x = Attention(MECHANISMS[name]).eval(), torch.randn(2, 15, 21)
    with captured(model) as found:
        model(x)
    places, kind = (7, "channels") if name == "channel" else (15, "encoder")
    side = Side("text", tuple(map(str, range(places))))
    made = layer_of(found[0], label="1", kind=kind, queries=0, keys=0, sides=(side,), budget=budget)
    split = budget == 1000 and name in ("softmax", "local", "spatial")
    assert made.mechanism == name and isinstance(made.data, Factors) is split
    for head, row in ((0, 0), (1, 4), (2, 6)):
        expected = found[0].weights()[0, head, row].numpy()
        np.testing.assert_allclose(made.data.row(head, row), expected, atol=1e-3)
    assert all(0 <= one.entropy <= 1 for one in made.measures)


def test_everything_asked_is_there_in_sums_over_a_real_model() -> None:
    """Weights by the formula, one by one: entropy, reach and shares of a causal head."""
    model, x = Attention(MECHANISMS["softmax"]).eval(), torch.randn(1, 15, 21) * 3
    with captured(model) as found:
        model(x)
    side = Side(
        "text", ("to", "be", "or", "not", "to", "be", "that", "is", "the", "end", "and", "it", "is", "no", "more")
    )
    made = layer_of(found[0], label="1", kind="decoder", queries=0, keys=0, sides=(side,))
    weights = found[0].weights()[0, 1].double().numpy()
    rows = [weights[i, : i + 1] for i in range(1, 15)]
    entropy = np.mean([-(row * np.log(row)).sum() / np.log(len(row)) for row in rows])
    reach = np.mean([(weights[i] * np.abs(i - np.arange(15))).sum() for i in range(15)])
    again = [(i, j) for i in range(15) for j in range(i) if side.tokens[i] == side.tokens[j]]
    measures = made.measures[1]
    assert measures.entropy == pytest.approx(entropy, abs=1e-6) and measures.reach == pytest.approx(reach, abs=1e-5)
    assert measures.views["same word"] == pytest.approx(np.mean([weights[pair] for pair in again]), abs=1e-6)
    assert measures.chance["same word"] == pytest.approx(np.mean([1 / (i + 1) for i, _ in again]), abs=1e-6)
    assert measures.views["itself"] == pytest.approx(np.mean([weights[i, i] for i in range(1, 15)]), abs=1e-6)
