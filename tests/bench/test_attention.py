"""The attention work on small sizes: its inputs, its equations, and rows that are right before they are fast."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from headway.bench import attention, attention_long
from headway.bench.agree import Disagreement
from headway.bench.attention_inputs import AttentionInputs, Equation
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.run import Bench
from headway.ops.attention import attend
from headway.ops.bias import Relative
from headway.ops.mask import causal, padding, window

MACHINE = MachineLimits("toy", 1, {"float32": 1e9, "bfloat16": 1e9}, 1e9, Timing((1.0, 1.0)))
RUN = Bench(MACHINE, quick=True, seconds=0.0)


def test_a_prefix_of_the_inputs_does_not_depend_on_the_length():
    short, long = AttentionInputs(13), AttentionInputs(29)
    for some, more in zip(short.tensors, long.tensors, strict=True):
        assert torch.equal(some, more[:, :, :13])


def test_shapes_directions_and_gradients():
    problem = AttentionInputs(13, keys=17, kv_heads=2, value_width=32, backward=True)
    assert problem.shape == "B1 H8 G2 L13 M17 K64 W32"
    assert problem.direction == "forward+backward"
    found = problem.call(attend)()
    assert [tuple(tensor.shape) for tensor in found] == [(1, 8, 13, 32), (1, 8, 13, 64), (1, 2, 17, 64), (1, 2, 17, 32)]
    assert len(replace(problem, backward=False).call(attend)()) == 1


def test_work_and_traffic_by_hand():
    problem = AttentionInputs(13, value_width=32)
    assert problem.flops(13 * 13) == 2 * 8 * 169 * 64 + 2 * 8 * 169 * 32
    assert problem.bytes == 4 * 8 * 13 * (64 + 64 + 32 + 32)
    both = replace(problem, backward=True)
    assert both.flops(13 * 13) == 3 * problem.flops(13 * 13)
    assert both.bytes == 4 * 8 * 13 * (64 + 64 + 32 + 32) + 4 * 8 * 13 * (2 * (64 + 64 + 32) + 32)


@pytest.mark.parametrize(
    ("equation", "options"),
    [
        (Equation(), {}),
        (Equation(mask=causal() & window(5)), {"mask": causal(), "mechanism": "local", "window": 5}),
        (Equation(softcap=0.5), {"softcap": 0.5}),
        (Equation(mask=causal(), linear=True), {"mask": causal(), "mechanism": "linear"}),
    ],
)
def test_equations_are_what_headway_computes_in_float64(equation, options):
    q, k, v = (tensor.double() for tensor in AttentionInputs(23, heads=3).tensors)
    torch.testing.assert_close(equation(q, k, v), attend(q, k, v, **options), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        equation(q, k, v, rows=slice(-5, None)), equation(q, k, v)[:, :, -5:], rtol=0, atol=1e-14
    )


def test_the_equation_with_a_bias_and_with_positions_below_zero():
    q, k, v = (tensor.double() for tensor in AttentionInputs(23, heads=3).tensors)
    weight = torch.randn(32, 3, dtype=torch.float64)
    expected = attend(q, k, v, bias=Relative(weight))
    equation = Equation(bias=attention.relative_table)
    torch.testing.assert_close(equation(q, k, v, weight), expected, rtol=0, atol=1e-12)
    pattern = attention_long.PATTERNS[-1]
    torch.testing.assert_close(pattern.equation(q, k, v), pattern(q, k, v), rtol=0, atol=1e-12)


def test_a_window_off_by_one_is_found_at_the_small_length_and_at_the_full_one():
    wrong = partial(attend, mask=causal(), mechanism="local", window=6)
    with pytest.raises(Disagreement, match="headway and the equation disagree"):
        Equation(mask=causal() & window(5)).verify("headway", wrong, AttentionInputs(71), length=31)

    def wrong_when_long(q, k, v):
        return attend(q, k, v, mask=causal(), mechanism="local", window=5 if q.shape[2] < 71 else 6)

    with pytest.raises(Disagreement):
        Equation(mask=causal() & window(5)).verify("headway", wrong_when_long, AttentionInputs(71), length=31)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", attention.KINDS)
def test_every_kind_of_softmax_call_agrees_with_torch(name, precision, backward):
    problem = AttentionInputs(37, precision=precision, backward=backward)
    row = attention._beside_sdpa(RUN, name, attention.KINDS[name](problem))
    assert row.headway is not None, row.note
    assert row.best_peer == "torch SDPA"
    assert name in row.model


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_checked_against_one_table(side):
    mask = causal() & padding(lengths=[29], total=37, side=side)
    row = attention._beside_causal(RUN, AttentionInputs(37, backward=True), mask, "padded")
    assert row.headway is not None, row.note
    assert list(row.peers) == ["headway, causal alone"]


def test_modified_scores_have_a_row_of_time_and_one_of_memory():
    plain = AttentionInputs(41, backward=True)
    weight = torch.randn(32, 8).requires_grad_()
    time, memory = attention._beside_plain(
        RUN, "learned bias", plain, plain, attention.attend_relative, Equation(bias=attention.relative_table), weight
    )
    assert time.headway is not None, time.note
    assert (memory.unit, memory.peers) == ("MiB", {"one B H L M tensor": 8 * 41 * 41 * 4 / 2**20})


@pytest.mark.parametrize("pattern", [attention_long.LOCAL, *attention_long.PATTERNS], ids=lambda pattern: pattern.name)
def test_every_pattern_is_the_equation_of_its_mask(pattern):
    row = attention_long._beside_dense(RUN, pattern, AttentionInputs(1031), 4)
    assert row.headway is not None, row.note
    assert row.target is None  # stated at 16,384 tokens only


def test_a_full_run_has_a_target_for_a_pattern():
    row = attention_long._beside_dense(Bench(MACHINE, seconds=0.0), attention_long.LOCAL, AttentionInputs(1031), 4)
    assert row.target is not None


def test_growth_is_against_half_the_length():
    function = partial(attend, mask=causal(), mechanism="linear")
    row = attention_long._growth(
        RUN, "linear", function, Equation(mask=causal(), linear=True), AttentionInputs(74), 74 * 64
    )
    assert row.headway is not None, row.note
    assert list(row.peers) == ["headway at L37"]
    memory = attention_long._memory_growth("linear", function, AttentionInputs(74))
    assert memory.ratio_to_best == pytest.approx(2.0, abs=0.3)


def test_a_call_that_looks_ahead_is_not_timed():
    row = attention_long._growth(RUN, "full", attend, Equation(), AttentionInputs(74), 74 * 64)
    assert row.headway is None
    assert "at L74 and headway at L37 disagree" in row.note


def test_all_cases_are_offered():
    assert list(attention.CASES) == ["softmax", "local", "patterns", "linear", "padding", "modified"]
