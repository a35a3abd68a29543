"""Positions: against loops over plain numbers, against values worked out by hand, and by the laws they claim."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.ops.bias import Alibi, Bias, Clipped, Relative, alibi_slopes, relative_bucket
from headway.ops.mask.pairs import Pairs
from headway.ops.position import grid_positions, sinusoidal, sinusoidal_cells, sinusoidal_grid
from headway.ops.rotary import apply_rotary, rotary_grid_table, rotary_table

B, H, L, M, K = 2, 3, 5, 7, 10
ANYWHERE = st.integers(-(10**6), 10**6)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rotate(
    x: torch.Tensor,
    positions: torch.Tensor,
    *,
    base: float = 10000.0,
    width: int | None = None,
    interleaved: bool = False,
) -> torch.Tensor:
    """x turned by its positions, in the precision of a layer."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    table = rotary_table(positions, width=x.shape[-1] if width is None else width, base=base, dtype=dtype)
    return apply_rotary(x, table, interleaved=interleaved)


# Sinusoids


@pytest.mark.parametrize("width", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("base", [10000.0, 7.0])
def test_sinusoidal_is_the_formula(width: int, base: float) -> None:
    positions = torch.tensor([[0, 1, -2, 511, 13], [4, 4, 0, 1_000_000, 3]])
    found = sinusoidal(positions, width=width, base=base, dtype=torch.float64)
    assert found.shape == (2, 5, width)
    for where, j in np.ndenumerate(positions.numpy()):
        for i in range(width):
            want = math.sin(j / base ** (i / width)) if i % 2 == 0 else math.cos(j / base ** ((i - 1) / width))
            assert found[(*where, i)].item() == pytest.approx(want, abs=2e-10 if j > 1000 else 1e-13)


def test_sinusoidal_by_hand() -> None:
    # width 4: wavelengths of 1 and 100; position 2
    want = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    found = sinusoidal(torch.tensor([2]), width=4, dtype=torch.float64)
    torch.testing.assert_close(found, torch.tensor([want], dtype=torch.float64), rtol=0, atol=1e-15)


def test_far_positions_keep_their_angle_in_float32() -> None:
    positions = torch.tensor([10**6 + 1, 2**24 + 1])
    exact = sinusoidal(positions, width=11, dtype=torch.float64)
    assert (sinusoidal(positions, width=11) - exact).abs().max() < 1e-7
    x = draw(1, 1, 2, K).float()
    assert (rotate(x, positions) - rotate(x.double(), positions)).abs().max() < 1e-6


@pytest.mark.parametrize(("width", "base"), [(0, 10000.0), (4, 0.0), (4, -1.0)])
def test_sinusoidal_refuses(width: int, base: float) -> None:
    with pytest.raises(ValueError, match=r"width of at least 1|must be positive"):
        sinusoidal(torch.arange(3), width=width, base=base)


def test_grid_gives_half_of_the_channels_to_each_axis() -> None:
    rows, columns, width = 3, 5, 14
    table = sinusoidal_grid(rows, columns, width=width, dtype=torch.float64)
    assert table.shape == (15, width)
    alone = sinusoidal(torch.arange(5), width=7, dtype=torch.float64)
    for y in range(rows):
        for x in range(columns):
            assert torch.equal(table[y * columns + x], torch.cat([alone[y], alone[x]]))


def test_grid_positions_count_row_by_row() -> None:
    y, x = grid_positions(2, 3)
    assert (y.tolist(), x.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(("rows", "columns", "width"), [(0, 3, 4), (3, 0, 4), (2, 3, 7)])
def test_grid_refuses(rows: int, columns: int, width: int) -> None:
    with pytest.raises(ValueError, match=r"at least one row and one column|width 7 is odd"):
        sinusoidal_grid(rows, columns, width=width)


# Rotations


def rotated_by_loop(x: torch.Tensor, positions: torch.Tensor, width: int, base: float, interleaved: bool) -> np.ndarray:
    """Each pair as a complex number, times e^(i · position · frequency)."""
    out, places = x.numpy().copy(), positions.expand(x.shape[0], -1).numpy()
    for b, h, place, pair in np.ndindex(*x.shape[:3], width // 2):
        one, two = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + width // 2)
        angle = places[b, place] * base ** (-2 * pair / width)
        turned = complex(x[b, h, place, one], x[b, h, place, two]) * complex(math.cos(angle), math.sin(angle))
        out[b, h, place, one], out[b, h, place, two] = turned.real, turned.imag
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [None, 2, 6])
@pytest.mark.parametrize("batched", [False, True])
def test_rotate_is_a_product_of_complex_numbers(interleaved: bool, width: int | None, batched: bool) -> None:
    x = draw(B, H, L, K)
    positions = torch.tensor([[3, -1, 0, 17, 4], [0, 1, 2, 3, 900]] if batched else [3, -1, 0, 17, 4])
    found = rotate(x, positions, base=500.0, width=width, interleaved=interleaved)
    want = rotated_by_loop(x, positions, width or K, 500.0, interleaved)
    np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=1e-12)


def test_the_two_layouts_by_hand() -> None:
    # Frequencies 1 and 1/100; position 1; only channel 0 is set, so its partner shows the layout.
    x = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    x[..., 0] = 1
    one = torch.tensor([1])
    assert rotate(x, one).flatten().tolist() == pytest.approx([math.cos(1), 0, math.sin(1), 0])
    assert rotate(x, one, interleaved=True).flatten().tolist() == pytest.approx([math.cos(1), math.sin(1), 0, 0])


@given(
    query=ANYWHERE,
    key=ANYWHERE,
    shift=st.integers(-1000, 1000),
    interleaved=st.booleans(),
    width=st.sampled_from([None, 2, 4, 8]),
    seed=st.integers(0, 99),
)
def test_rotated_products_depend_on_differences_only(
    query: int, key: int, shift: int, interleaved: bool, width: int | None, seed: int
) -> None:
    q, k = draw(2, 1, H, 1, K, seed=seed)

    def score(i: int, j: int) -> torch.Tensor:
        turn = [rotate(x, torch.tensor([p]), width=width, interleaved=interleaved) for x, p in ((q, i), (k, j))]
        return (turn[0] * turn[1]).sum(-1)

    torch.testing.assert_close(score(query, key), score(query + shift, key + shift), rtol=0, atol=1e-7)
    near = score(0, key - query)
    torch.testing.assert_close(score(query, key), near, rtol=0, atol=1e-7)
    # The law would be empty if the score did not change with the difference.
    assert (score(1, 0) - score(0, 0)).abs().max() > 1e-3


def test_added_sinusoids_do_not_depend_on_differences_only() -> None:
    q, k = draw(2, 11)
    p = sinusoidal(torch.arange(4), width=11, dtype=torch.float64)
    assert abs((q + p[0]) @ (k + p[1]) - (q + p[2]) @ (k + p[3])) > 1e-2


@given(position=ANYWHERE, interleaved=st.booleans(), width=st.sampled_from([None, 2, 6]), seed=st.integers(0, 99))
def test_rotation_keeps_norms_and_can_be_undone(position: int, interleaved: bool, width: int | None, seed: int) -> None:
    x, there = draw(B, H, L, K, seed=seed), torch.full((L,), position)
    turned = rotate(x, there, width=width, interleaved=interleaved)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-13, atol=0)
    torch.testing.assert_close(rotate(turned, -there, width=width, interleaved=interleaved), x, rtol=0, atol=1e-12)
    assert torch.equal(rotate(x, torch.zeros(L, dtype=torch.long), width=width, interleaved=interleaved), x)
    assert torch.equal(turned[..., width or K :], x[..., width or K :])


def test_one_table_serves_queries_and_keys() -> None:
    q, k, positions = draw(B, H, L, K), draw(B, 1, L, K, seed=1), torch.tensor([4, 1, 9, -3, 0])
    table = rotary_table(positions, width=K, dtype=torch.float64)
    assert torch.equal(apply_rotary(q, table), rotate(q, positions))
    assert torch.equal(apply_rotary(k, table), rotate(k, positions))


def test_rotation_in_bfloat16_rounds_once() -> None:
    x = draw(B, H, L, K).bfloat16()
    positions = torch.tensor([0, 1, 300, 70_001, 5])
    exact = rotate(x.double(), positions)
    found = rotate(x, positions)
    assert found.dtype == torch.bfloat16
    assert ((found.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-5).all()


def test_rotation_has_the_gradient_of_a_rotation() -> None:
    x = draw(1, 2, 3, 6).requires_grad_()
    for interleaved in (False, True):
        turn = lambda z, i=interleaved: rotate(z, torch.tensor([5, -2, 9]), width=4, interleaved=i)  # noqa: E731
        assert torch.autograd.gradcheck(turn, (x,))


@given(shift=st.tuples(ANYWHERE, ANYWHERE), interleaved=st.booleans())
def test_grid_rotation_depends_on_both_differences(shift: tuple[int, int], interleaved: bool) -> None:
    y, x = grid_positions(3, 5)
    q, k = draw(2, B, H, 15, 12)

    def scores(down: int, right: int) -> torch.Tensor:
        table = rotary_grid_table(y + down, x + right, width=8, dtype=torch.float64)
        return apply_rotary(q, table, interleaved=interleaved) @ apply_rotary(k, table, interleaved=interleaved).mT

    torch.testing.assert_close(scores(*shift), scores(0, 0), rtol=0, atol=1e-7)


def test_grid_rotation_turns_half_with_y_and_half_with_x() -> None:
    x, zero, five = draw(1, 1, 1, 8), torch.tensor([0]), torch.tensor([5])
    by_y = apply_rotary(x, rotary_grid_table(five, zero, width=8, dtype=torch.float64), interleaved=True)
    by_x = apply_rotary(x, rotary_grid_table(zero, five, width=8, dtype=torch.float64), interleaved=True)
    torch.testing.assert_close(by_y[..., :4], rotate(x[..., :4], five, interleaved=True))
    torch.testing.assert_close(by_x[..., 4:], rotate(x[..., 4:], five, interleaved=True))
    assert torch.equal(by_y[..., 4:], x[..., 4:])
    assert torch.equal(by_x[..., :4], x[..., :4])


@pytest.mark.parametrize(
    ("positions", "options", "sentence"),
    [
        ([0, 1, 2, 3, 4], {"width": 5}, "width 5 is not a positive even number"),
        ([0, 1, 2, 3, 4], {"width": 0}, "width 0 is not a positive even number"),
        ([0, 1, 2, 3, 4], {"width": 12}, "rotary width of 12 is more than the head width 10"),
        ([[0, 1, 2, 3, 4]] * 3, {}, r"batch shape \(3,\) were given for a batch of 2"),
    ],
)
def test_rotate_refuses(positions: list, options: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rotate(draw(B, H, L, K), torch.tensor(positions), **options)


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_table_of_another_length_is_refused(tokens: int) -> None:
    with pytest.raises(ValueError, match=f"{6 - tokens} positions were given for {tokens} tokens"):
        apply_rotary(draw(B, H, tokens, K), rotary_table(torch.arange(6 - tokens), width=K))


def test_grid_rotation_needs_four() -> None:
    with pytest.raises(ValueError, match="4 does not divide width 6"):
        rotary_grid_table(*grid_positions(2, 3), width=6)


# Biases


def test_alibi_slopes_by_hand() -> None:
    assert alibi_slopes(8, dtype=torch.float64).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(1).tolist() == [2.0**-8]
    assert alibi_slopes(2).tolist() == [2.0**-4, 2.0**-8]
    # 12 heads: those of 8, then the 1st, 3rd, 5th and 7th of 16
    want = [2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert alibi_slopes(12, dtype=torch.float64).tolist() == pytest.approx(want, rel=1e-15)
    with pytest.raises(ValueError, match="at least one head, not 0"):
        alibi_slopes(0)


@given(st.integers(1, 70))
def test_alibi_slopes_are_distinct_and_below_one(heads: int) -> None:
    slopes = alibi_slopes(heads, dtype=torch.float64)
    assert len(set(slopes.tolist())) == heads
    assert ((slopes > 0) & (slopes < 1)).all()


def biases() -> dict[str, tuple[Bias, object]]:
    """Each bias with its rule for (head, query position, key position), in plain Python."""
    slopes, near, buckets, causal = draw(H).abs(), draw(2 * 2 + 1, H, seed=1), draw(14, H, seed=2), draw(6, H, seed=3)

    def bucket(d: int, side: int, far: int) -> int:
        exact, a = side // 2, abs(d)
        if a < exact:
            return a
        return min(exact + math.floor((side - exact) * math.log(a / exact) / math.log(far / exact) + 1e-12), side - 1)

    return {
        "alibi": (Alibi(slopes), lambda h, i, j: -slopes[h] * abs(i - j)),
        "clipped": (Clipped(near), lambda h, i, j: near[min(max(j - i, -2), 2) + 2, h]),
        "relative": (
            Relative(buckets, bidirectional=True, max_distance=11),
            lambda h, i, j: buckets[bucket(j - i, 7, 11) + (7 if j > i else 0), h],
        ),
        "relative, one direction": (
            Relative(causal, bidirectional=False, max_distance=13),
            lambda h, i, j: causal[bucket(min(j - i, 0), 6, 13), h],
        ),
        "relative, all but exact": (
            Relative(causal, bidirectional=False, max_distance=4),
            lambda h, i, j: causal[bucket(min(j - i, 0), 6, 4), h],
        ),
    }


PLACES = {
    "in order": ([[0, 1, 2, 3, 4]], [[0, 1, 2, 3, 4, 5, 6]]),
    "in order, apart": ([[40, 41, 42, 43, 44]], [[-3, -2, -1, 0, 1, 2, 3]]),
    "one query, later": ([[6]], [[0, 1, 2, 3, 4, 5, 6]]),
    "gaps and repeats": ([[5, 0, 0, -2, 90]], [[7, 6, 5, 4, 3, 2, 500]]),
    "a row each": ([[0, 1, 2, 3, 4], [-3, -2, -1, 0, 1]], [[0, 1, 2, 3, 4, 5, 6], [4, 5, 6, 7, 8, 9, 10]]),
    "queries shared": ([[0, 1, 2, 3, 4]], [[0, 1, 2, 3, 4, 5, 6], [4, 5, 6, 7, 8, 9, 10]]),
    "no query": ([[]], [[0, 1, 2]]),
    "no key": ([[0, 1, 2]], [[]]),
}


@pytest.mark.parametrize("name", list(biases()))
@pytest.mark.parametrize("places", list(PLACES))
def test_bias_tables_are_their_rules(name: str, places: str) -> None:
    bias, rule = biases()[name]
    query, key = (torch.tensor(rows, dtype=torch.long) for rows in PLACES[places])
    found = bias.table(bias.parameters, Pairs.of(query, key))
    batch = max(len(query), len(key))
    assert found.shape == (batch, H, query.shape[1], key.shape[1])
    assert found.dtype == torch.float64
    for b, h, i, j in np.ndindex(*found.shape):
        want = rule(h, query[b % len(query), i].item(), key[b % len(key), j].item())
        assert found[b, h, i, j].item() == pytest.approx(float(want), abs=1e-14)


@pytest.mark.parametrize("name", list(biases()))
def test_consecutive_and_scattered_positions_agree(name: str) -> None:
    """The quick way for positions in order, against the same pairs in another order; gradients too."""
    bias, _ = biases()[name]
    query, key = torch.arange(3, 3 + L)[None], torch.arange(-2, M - 2)[None]
    mixed = torch.randperm(L, generator=torch.Generator().manual_seed(1))
    (weight,) = (parameter.clone().requires_grad_() for parameter in bias.parameters)
    quick, other = bias.table((weight,), Pairs.of(query, key)), bias.table((weight,), Pairs.of(query[:, mixed], key))
    assert torch.equal(quick[:, :, mixed], other)
    upstream = draw(1, H, L, M)
    (one,) = torch.autograd.grad(quick, weight, upstream)
    (two,) = torch.autograd.grad(other, weight, upstream[:, :, mixed])
    torch.testing.assert_close(one, two, rtol=1e-13, atol=1e-13)
    assert torch.autograd.gradcheck(lambda w: bias.table((w,), Pairs.of(query, key)), (weight,))


@pytest.mark.parametrize("name", list(biases()))
def test_biases_are_biases(name: str) -> None:
    bias, _ = biases()[name]
    assert isinstance(bias, Bias)
    assert not isinstance(torch.nn.Linear(2, 3), Bias)
    double = tuple(2 * parameter for parameter in bias.parameters)
    query, key = torch.arange(L)[None], torch.arange(M)[None]
    assert torch.equal(bias.table(double, Pairs.of(query, key)), 2 * bias.table(bias.parameters, Pairs.of(query, key)))


def test_alibi_tells_far_distances_apart_in_bfloat16() -> None:
    table = Alibi(alibi_slopes(2).bfloat16()).table(
        (alibi_slopes(2).bfloat16(),), Pairs.of(torch.tensor([[257]]), torch.tensor([[0, 1]]))
    )
    assert table[0, 0, 0].tolist() == [-257 / 16, -256 / 16]


def test_relative_buckets_by_hand() -> None:
    """32 buckets, two directions: 8 exact, then 8 + floor(2 log2(a / 8)), so edges at 8 · 2^(k/2), rounded up."""
    edges = [8, 12, 16, 23, 32, 46, 64, 91]
    distances = torch.arange(200)
    want = [a if a < 8 else 7 + sum(a >= edge for edge in edges) for a in range(200)]
    assert relative_bucket(-distances).tolist() == want
    assert relative_bucket(distances)[1:].tolist() == [16 + bucket for bucket in want[1:]]


def test_relative_buckets_one_direction_by_hand() -> None:
    """32 buckets, the past: 16 exact, then 16 + floor(16/3 · log2(a / 16)): edges at 16 · 2^(3k/16), rounded up."""
    edges = [math.ceil(16 * 2 ** (3 * k / 16)) for k in range(16)]
    assert edges[:4] == [16, 19, 21, 24]
    assert edges[-1] == 113
    want = [a if a < 16 else 15 + sum(a >= edge for edge in edges) for a in range(200)]
    assert relative_bucket(-torch.arange(200), bidirectional=False).tolist() == want
    assert relative_bucket(torch.arange(200), bidirectional=False).eq(0).all()


@given(side=st.integers(2, 40), more=st.integers(1, 300))
def test_relative_buckets_are_the_formula(side: int, more: int) -> None:
    exact, far = side // 2, side // 2 + more
    found = relative_bucket(-torch.arange(2 * far), buckets=side, max_distance=far, bidirectional=False).tolist()
    assert found[:exact] == list(range(exact))
    for a in range(exact, 2 * far):
        step = (side - exact) * math.log(a / exact) / math.log(far / exact)
        if abs(step - round(step)) > 1e-9:  # at an edge the logarithm rounds either way; whole numbers do not
            assert found[a] == min(exact + math.floor(step), side - 1)
    assert found[far:] == [side - 1] * far


def test_relative_bucket_edges_are_exact() -> None:
    """5 buckets to 250: 2 exact, edges at 2 · 5^k; in floats log(5) / log(125) · 3 may round below 1."""
    assert math.floor(3 * math.log(10 / 2) / math.log(250 / 2)) == 0
    found = relative_bucket(-torch.tensor([9, 10, 49, 50, 250]), buckets=5, max_distance=250, bidirectional=False)
    assert found.tolist() == [2, 3, 3, 4, 4]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_buckets_are_those_of_t5_weights(bidirectional: bool) -> None:
    """Trained weights were bucketed by a float32 logarithm: at T5's sizes that agrees with whole numbers everywhere."""
    side = 16 if bidirectional else 32
    distance = torch.arange(side // 2, 100_000)
    step = torch.log(distance.float() / (side // 2)) / math.log(128 / (side // 2)) * (side - side // 2)
    want = (side // 2 + step.long()).clamp(max=side - 1)
    assert torch.equal(relative_bucket(-distance, bidirectional=bidirectional), want)


@pytest.mark.parametrize(
    ("buckets", "far", "both", "sentence"),
    [
        (7, 128, True, "7 buckets cannot be shared evenly"),
        (2, 128, True, "got 1 buckets"),
        (32, 8, True, "8 of them exact, and max_distance 8"),
        (32, 16, False, "16 of them exact, and max_distance 16"),
    ],
)
def test_relative_refuses(buckets: int, far: int, both: bool, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        relative_bucket(torch.arange(3), buckets=buckets, max_distance=far, bidirectional=both)
    with pytest.raises(ValueError, match=sentence):
        Relative(draw(buckets, H), bidirectional=both, max_distance=far)


def test_clipped_refuses_an_even_weight() -> None:
    with pytest.raises(ValueError, match="an odd number; the weight has 4"):
        Clipped(draw(4, H))


def test_cells_may_differ_per_row_of_the_batch() -> None:
    y, x = torch.tensor([[0, 1], [5, 2]]), torch.tensor([[3, 3], [0, 4]])
    table = sinusoidal_cells(y, x, width=6, dtype=torch.float64)
    assert torch.equal(
        table[1, 0], sinusoidal_cells(torch.tensor([5]), torch.tensor([0]), width=6, dtype=torch.float64)[0]
    )
