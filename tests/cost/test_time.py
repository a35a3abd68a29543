"""Seconds from rates, by hand on a made-up machine; what dominates, and where that changes. No time is measured."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headway.cost.compose import price_tree
from headway.cost.op_tree import Line, lines
from headway.cost.setting import Setting
from headway.cost.time import (
    HEAD,
    PROJECTIONS,
    SCORES,
    bottleneck,
    group,
    intensity,
    predict,
    shares,
)  # fmt: skip
from headway.cost.time.kernels import PHASES, Grid, WeightBytes
from headway.ops.activation import activation_price
from headway.ops.attention.cost import Workload, softmax_operation
from headway.ops.elementwise_prices import add_price, dropout_price, lookup_price
from headway.ops.linear import linear_price
from headway.ops.loss import loss_price
from headway.ops.mask.pairs import Pairs
from headway.ops.norm import norm_price
from headway.presets import preset
from headway.sizes import Cost, Operation, Sizes
from tests.cost.crossover import by_seconds, crossover
from tests.cost.toy_machine import RATES, toy_machine, without_overheads

PRODUCT = Line("feedforward.up", 2, 2, linear_price(3, 5, 7, bias=True))


def attention(length: int, heads: int = 3, width: int = 5) -> Operation:
    sizes = Sizes(1, heads, heads, length, length, width, width)
    return softmax_operation(Workload(sizes, None, Pairs.of(length)))


def layer(length: int, width: int, heads: int = 1) -> Iterator[Line]:
    """Four projections around scores and weighted sum, and nothing else."""
    for name in ("query", "key", "value", "out"):
        yield Line(f"attention.{name}", 1, 1, linear_price(length, width, width, bias=False))
    yield Line("attention.core", 1, 1, attention(length, heads, width // heads))


def test_a_product_by_hand() -> None:
    machine = toy_machine()
    assert machine.seconds(PRODUCT) == pytest.approx(2 * (0.125 + 105 / RATES["product/forward"]), rel=1e-12)
    learning = 2 * (0.125 + 105 / RATES["product/learning"])
    assert machine.seconds(PRODUCT, "learning") == pytest.approx(learning, rel=1e-12)
    backward = 2 * (0.125 + 210 / RATES["product/backward"])
    assert machine.seconds(PRODUCT, "backward") == pytest.approx(backward, rel=1e-12)
    # 35 weights and 7 biases, 4 bytes each in any precision
    update = 2 * (0.125 + 4 * 42 / RATES["update/forward"])
    assert machine.seconds(PRODUCT, "update") == pytest.approx(update, rel=1e-12)
    # What runs again and again with the same parameters is updated once.
    assert machine.seconds(replace(PRODUCT, runs=26), "update") == machine.seconds(PRODUCT, "update")
    assert machine.seconds(replace(PRODUCT, runs=26)) == pytest.approx(13 * machine.seconds(PRODUCT), rel=1e-12)


def test_one_row_is_looked_up_where_its_weights_are() -> None:
    near, far = 1000.0, 10.0
    grid = Grid({"rows": (1.0,), "side": (1.0,), "held": (2.0**10, 2.0**20)}, (near, far))
    machine = without_overheads(toy_machine(product_forward=grid))
    row = Line("up", 1, 1, linear_price(1, 5, 7, bias=False))
    assert machine.seconds(row) == pytest.approx(35 / near, rel=1e-12)
    assert machine.seconds(row, held=WeightBytes(2.0**22, 4)) == pytest.approx(35 / far, rel=1e-12)
    # A model holds all of its weights in turn, but not the table it looks tokens up in.
    large = Line("down", 2**10, 2**10, linear_price(1, 16, 16, bias=False))
    table = Line("tokens", 1, 1, lookup_price(1, 2**20, 16))
    assert WeightBytes.of([row, large, table], "float32").weights == 4 * (35 + 2**18)
    assert WeightBytes.of([row, replace(large, runs=0)], "bfloat16") == WeightBytes(70.0, 2)


@pytest.mark.parametrize(
    ("name", "operation", "phase", "kernel", "work"),
    [
        ("norm", norm_price("layer", 3, 5), "forward", "norm/forward", 4 * 30),
        ("norm", norm_price("layer", 3, 5), "backward", "norm/backward", 4 * 30),
        ("activation", activation_price("relu", 7), "learning", "activation/forward", 4 * 14),
        ("activation", activation_price("gelu_tanh", 7), "backward", "activation/backward", 4 * 14),
        ("residual", add_price(11), "forward", "elementwise/forward", 4 * 33),
        ("residual", add_price(11), "decoding", "elementwise/forward", 4 * 33),
        ("attention_dropout", dropout_price(11), "learning", "dropout/forward", 4 * 22),
        ("attention_dropout", dropout_price(11), "backward", "elementwise/forward", 4 * 22),
        ("tokens", lookup_price(3, 13, 5), "forward", "embedding/forward", 4 * 30),
        ("tokens", lookup_price(3, 13, 5), "backward", "embedding/backward", 4 * 65),
        ("loss", loss_price(3, 5), "learning", "loss/forward", 4 * 18),
    ],
)
def test_what_streams_is_timed_by_its_bytes(
    name: str, operation: Operation, phase: str, kernel: str, work: float
) -> None:
    found = toy_machine().seconds(Line(f"stack.{name}", 3, 3, operation), phase)
    assert found == pytest.approx(3 * (0.125 + work / RATES[kernel]), rel=1e-12)


def test_half_precision_moves_half_the_bytes() -> None:
    toy = toy_machine()
    both = replace(toy, rates={"float32": toy.of("float32"), "bfloat16": toy.of("float32")})
    line = Line("residual", 1, 1, add_price(11))
    assert both.seconds(line, dtype="bfloat16") == pytest.approx(0.125 + 66 / RATES["elementwise/forward"], rel=1e-12)


def test_attention_by_the_products_it_executes_and_its_block() -> None:
    operation = attention(7)
    machine = toy_machine()
    forward = 0.25 + 2 * 3 * 49 * 5 / RATES["attention/forward"]  # the call's and the block's overhead
    assert machine.seconds(Line("core", 1, 1, operation)) == pytest.approx(forward, rel=1e-12)
    backward = 0.25 + 5 * 3 * 49 * 5 / RATES["attention/backward"]
    assert machine.seconds(Line("core", 1, 1, operation), "backward") == pytest.approx(backward, rel=1e-12)


def test_scores_that_are_written_out_have_rates_of_their_own() -> None:
    once = Cost(30, 30, 30, 0)
    operation = Operation("attention", once, once + once, shape=(1, 2, 3, 5))
    found = toy_machine().seconds(Line("core", 1, 1, operation), "learning")
    assert found == pytest.approx(0.25 + 30 / RATES["written/learning"], rel=1e-12)


def test_a_tied_table_has_two_gradients_that_are_added() -> None:
    machine = without_overheads(toy_machine())
    own, tied = (Line("head", 1, 1, linear_price(3, 5, 7, bias=False, own=own)) for own in (True, False))
    more = machine.seconds(tied, "backward") - machine.seconds(own, "backward")
    assert more == pytest.approx(3 * 4 * 35 / RATES["elementwise/forward"], rel=1e-9)
    assert machine.seconds(tied, "update") == 0


def test_a_head_over_a_vocabulary_goes_a_few_rows_at_a_time() -> None:
    rows, words = 1031, 8209  # 8,463,479 logits, of which 2,097,152 are held at once: 255 rows
    rising = Grid({"rows": (255.0, 1031.0), "columns": (1.0,)}, (700.0, 900.0))
    machine = without_overheads(toy_machine(wide_forward=rising, wide_backward=rising))
    head, macs, table = Line("head", 1, 1, linear_price(rows, 5, words, bias=False)), rows * 5 * words, 5 * words
    assert machine.seconds(head, "forward") == pytest.approx(macs / 900, rel=1e-12)
    assert machine.seconds(head, "learning") == pytest.approx(macs / 700, rel=1e-12)
    gradient = 3 * 4 * table / RATES["elementwise/forward"]
    assert machine.seconds(head, "backward") == pytest.approx(2 * macs / 700 + gradient, rel=1e-12)
    narrow = Line("up", 1, 1, linear_price(rows, words // 4 + 1, words, bias=False))
    assert machine.seconds(narrow) == pytest.approx(rows * 2053 * words / RATES["product/forward"], rel=1e-12)


def test_products_without_weights_are_batches() -> None:
    macs = Cost(210, 210, 210, 0)
    line = Line("scores", 1, 1, Operation("product", macs, macs + macs, shape=(1, 5, 6, 7)))
    assert toy_machine().seconds(line) == pytest.approx(0.125 + 210 / RATES["batched/forward"], rel=1e-12)
    unshaped = replace(line, operation=replace(line.operation, shape=()))
    assert toy_machine().seconds(unshaped) == toy_machine().seconds(line)


def test_a_pass_is_the_sum_of_its_operations_and_what_is_around_them() -> None:
    machine, norm = toy_machine(), Line("norm", 1, 1, norm_price("rms", 3, 5))
    found = predict([PRODUCT, norm], machine)
    assert [line.path for line, _ in found.operations] == ["feedforward.up", "norm"]
    assert found.around == 0.125
    assert found.seconds == pytest.approx(0.125 + machine.seconds(PRODUCT) + machine.seconds(norm), rel=1e-12)
    step = predict([PRODUCT], machine, "step")
    each = sum(machine.seconds(PRODUCT, phase) for phase in ("learning", "backward", "update"))
    assert step.seconds == pytest.approx(0.25 + each, rel=1e-12)
    assert predict([PRODUCT], machine, "decode").seconds == predict([PRODUCT], machine, "prefill").seconds


@pytest.mark.parametrize("name", ["gpt2", "bert-base", "t5-small", "vit-b16", "rnnsearch", "llama3-70b"])
def test_any_model_has_a_predicted_time_of_every_pass(name: str) -> None:
    setting, machine = Setting(length=13, source=17), toy_machine()
    plain = predict(lines(price_tree(preset(name), setting)), machine).seconds
    taught = predict(lines(price_tree(preset(name), replace(setting, training=True))), machine, "step").seconds
    assert 0 < plain < taught


def test_bad_questions_are_answered_by_a_sentence() -> None:
    with pytest.raises(ValueError, match="there is no pass 'sideways'; there are forward, prefill, decode, step"):
        predict([PRODUCT], toy_machine(), "sideways")
    with pytest.raises(ValueError, match=f"there is no phase 'prefill'; there are {', '.join(PHASES)}"):
        toy_machine().seconds(PRODUCT, "prefill")
    with pytest.raises(ValueError, match="there is no precision 'float8'"):
        WeightBytes.of([PRODUCT], "float8")
    with pytest.raises(ValueError, match="a price without operations has no bottleneck"):
        bottleneck([])
    from sympy import Symbol  # it takes half a second, and one test needs it

    size = Symbol("L")
    symbolic = Line("up", 1, 1, Operation("product", Cost(size, size, None, 0), weights=7, shape=(1, size, 1, 7)))
    with pytest.raises(ValueError, match="seconds need numbers, and a size of this price is a symbol"):
        predict([symbolic], toy_machine())


def test_intensity_by_hand() -> None:
    # 2 · 105 + 21 for the bias; 15 read, 21 written, 35 weights, 7 biases
    assert intensity(PRODUCT) == pytest.approx(231 / (4 * 78), rel=1e-12)
    assert intensity(PRODUCT, dtype="bfloat16") == pytest.approx(231 / (2 * 78), rel=1e-12)
    assert intensity(Line("tokens", 1, 1, lookup_price(3, 13, 5))) == 0
    tied = Line("head", 1, 1, linear_price(3, 5, 7, bias=False, own=False))
    assert intensity(tied) == pytest.approx(210 / (4 * 71), rel=1e-12)


def test_bound_by_the_ridge() -> None:
    limit = 2 * RATES["product/forward"] / intensity(PRODUCT)  # the bandwidth at which the two are even
    for bandwidth, expected in ((0.99 * limit, "memory"), (1.01 * limit, "compute")):
        machine = toy_machine(memory_forward=Grid({"bytes": (1.0,)}, (bandwidth,)))
        assert bottleneck([PRODUCT], machine).bound == expected


def test_groups_are_the_parts_of_a_model() -> None:
    found = {line.path: group(line) for line in lines(price_tree(preset("t5-small"), Setting(length=5, training=True)))}
    assert found["encoder.blocks.attention.qkv"] == PROJECTIONS
    assert found["decoder.blocks.cross.out"] == PROJECTIONS
    assert found["decoder.blocks.cross.core"] == SCORES
    assert found["decoder.blocks.feedforward.down"] == "feed-forward"
    assert found["head"] == HEAD
    assert found["decoder.blocks.cross_norm"] == "norms"
    assert found["decoder.blocks.cross_residual"] == "elementwise"


def test_the_bottleneck_by_flops_and_by_seconds() -> None:
    found = list(layer(7, 5))
    flops = {PROJECTIONS: 2 * 4 * 7 * 25, SCORES: 2 * 2 * 49 * 5}
    by_flops = bottleneck(found)
    assert (by_flops.part, by_flops.by, by_flops.bound) == (PROJECTIONS, "FLOPs", None)
    assert by_flops.share == pytest.approx(flops[PROJECTIONS] / sum(flops.values()), rel=1e-12)
    assert by_flops.intensity == pytest.approx(intensity(found[0]), rel=1e-12)
    slow = Grid({"queries": (1.0,), "keys": (1.0,), "width": (1.0,)}, (1e-3,))
    by_time = bottleneck(found, toy_machine(attention_forward=slow))
    assert (by_time.part, by_time.by) == (SCORES, "seconds")
    assert by_time.share > 0.99 and by_time.bound in ("compute", "memory")
    assert list(shares(found)) == [PROJECTIONS, SCORES] and sum(shares(found).values()) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("width", [1, 7, 64, 97, 768])
def test_scores_overtake_four_projections_at_twice_the_width(width: int) -> None:
    assert crossover(lambda length: layer(length, width)) == 2 * width


@pytest.mark.parametrize("length", [2, 14, 15, 1024])
def test_projections_overtake_scores_at_half_the_length(length: int) -> None:
    found = crossover(lambda width: layer(length, width), rising=PROJECTIONS, falling=SCORES)
    assert found == -(-length // 2)


def test_a_crossover_in_steps_and_one_that_never_comes() -> None:
    heads = 3
    found = crossover(lambda width: layer(100, width, heads), rising=PROJECTIONS, falling=SCORES, step=heads)
    assert found == 51  # the first multiple of 3 from 50 on
    assert crossover(lambda length: layer(length, 100), most=199) is None
    asked: list[int] = []

    def sized(length: int) -> Iterator[Line]:
        asked.append(length)
        return layer(length, 100)

    assert crossover(sized) == 200 and max(asked) < 400


def test_a_crossover_by_seconds_is_where_the_machine_has_it() -> None:
    # Attention at a third of the rate of products: 2 L² D · 3 = 4 L D², so that L = 2 D / 3.
    rates = {
        "product_forward": Grid({"rows": (1.0,), "side": (1.0,), "held": (1.0,)}, (3.0,)),
        "attention_forward": Grid({"queries": (1.0,), "keys": (1.0,), "width": (1.0,)}, (1.0,)),
    }
    machine = without_overheads(toy_machine(**rates))
    assert crossover(lambda length: layer(length, 96), weigh=by_seconds(machine)) == 64
    assert crossover(lambda length: layer(length, 97), weigh=by_seconds(machine)) == 65  # 64.67
