"""What one call of the dispatcher costs, by the table of unit costs."""

from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor

from headway.cost.trace.axes import Axes, sizes
from headway.cost.trace.call import Called
from headway.cost.trace.products import Work
from headway.cost.trace.rules import FREE, RULES, Rule, each, filled
from headway.cost.trace.works import PRODUCTS
from headway.ops.activation import FLOPS
from headway.steps import POSITIONS, WIDTH, Each, levels

NO_RULE = "has no rule of its own: counted as one operation an entry"
LOOKUPS = ("embedding", "_embedding_bag")
SOFTMAX = ("_softmax", "_safe_softmax", "_masked_softmax")
ROWS = ("index_add", "scatter_add")  # their last input is what is added
KNOWN_MOMENTS = 4  # FLOPs an entry of a batch norm in use: subtract, multiply, γ, β


def work(called: Called, axes: Axes) -> tuple[Work, str | None]:
    """The work of a call, and a note where no rule says what it is."""
    product = PRODUCTS.get(called.name)
    if product is not None:
        return product(called, axes), None
    if called.name in LOOKUPS:
        return Work("embedding"), None
    if called.name in FREE or not called.outputs:
        return Work("elementwise"), None
    rule = RULES.get(called.name)
    return _by_rule(called, axes, rule or each(1)), None if rule else f"{called.operation} {NO_RULE}"


def _by_rule(called: Called, axes: Axes, rule: Rule) -> Work:
    special = SPECIAL.get(called.name)
    rule = rule if special is None else special(called, rule)
    first = called.inputs[0] if called.inputs else called.outputs[0]
    first = called.inputs[-1] if called.name in ROWS else first
    entries = (called.outputs[0] if rule.per == "output" else first).numel()
    steps = rule.steps
    if any(not isinstance(step, Each) for step in steps):
        steps = filled(steps, *terms_of(called, axes, rule))
    return Work(rule.kind, other=rule.flops * entries * called.floating, steps=steps)


def terms_of(called: Called, axes: Axes, rule: Rule) -> tuple[int, str]:
    """How many terms the sums of a call have, and over what they run."""
    bound, x = called.bound, called.inputs[0]
    if rule.kind == "norm":
        return _norm_terms(bound, x)
    if "pool" in called.name:
        return _window(bound, x, called.outputs[0]), POSITIONS
    if isinstance(bound.get("target"), Tensor):
        return bound["target"].numel(), POSITIONS
    if called.name in ROWS:
        return called.inputs[-1].shape[bound["dim"]], POSITIONS
    chosen = reduced(bound, x)
    if called.name in SOFTMAX and x.dim():
        return x.shape[chosen[0]], axes.of_softmax(x, chosen[0])
    return sizes(x, chosen), axes.of_sum(x, chosen)


def _norm_terms(bound: dict[str, Any], x: Tensor) -> tuple[int, str]:
    """Layer and rms norms run over a width, group norms over a group's places, batch norms over all but channels."""
    if "normalized_shape" in bound:
        return prod(bound["normalized_shape"]), WIDTH
    if "group" in bound:
        return x.numel() // max(1, x.shape[0] * bound["group"]), POSITIONS
    return x.numel() // max(1, x.shape[1]), POSITIONS


def _window(bound: dict[str, Any], x: Tensor, result: Tensor) -> int:
    """How many places go into one result of a pooling."""
    kernel = bound.get("kernel_size")
    return max(1, x.numel() // max(1, result.numel())) if kernel is None else prod(kernel)


def reduced(bound: dict[str, Any], x: Tensor) -> list[int]:
    """The axes a call sums over; all of them where none are named."""
    named = bound.get("dim")
    if isinstance(named, int) and not isinstance(named, bool):
        return [named] if x.dim() else []
    return list(named) if isinstance(named, list | tuple) and named else list(range(x.dim()))


def _power(called: Called, rule: Rule) -> Rule:
    exponent: Any = called.bound.get("exponent")
    whole = isinstance(exponent, int | float) and float(exponent).is_integer() and exponent > 1
    return each(levels(int(exponent))) if whole else rule


def _gelu(called: Called, rule: Rule) -> Rule:
    flops = FLOPS["gelu_tanh" if called.bound.get("approximate") == "tanh" else "gelu"]
    return Rule(rule.kind, flops, (Each(flops),))


def _moments(called: Called, rule: Rule) -> Rule:
    """In use, the moments of a batch norm are constants."""
    learning = called.bound.get("training", called.bound.get("train", called.name == "_batch_norm_with_update"))
    return rule if learning else Rule(rule.kind, KNOWN_MOMENTS, (Each(KNOWN_MOMENTS),), rule.per)


def _sorted(called: Called, rule: Rule) -> Rule:
    x = called.inputs[0]
    high = levels(x.shape[called.bound.get("dim", -1)] if x.dim() else 1)
    return Rule(rule.kind, -(-high * (high + 1) // 4), (Each(high * (high + 1) // 2),), rule.per)


def _transform(called: Called, rule: Rule) -> Rule:
    high = levels(sizes(called.inputs[0], list(called.bound["dim"])))
    return Rule(rule.kind, 5 * high, (Each(3 * high),), rule.per)


def _of_two(called: Called, rule: Rule) -> Rule:
    """max(a, b) compares entry by entry."""
    return each(1) if isinstance(called.bound.get("other"), Tensor) else rule


BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
               "cudnn_batch_norm", "_batch_norm_with_update", "_batch_norm_no_update")  # fmt: skip


def _complex(called: Called, rule: Rule) -> Rule:
    """A product of complex numbers: four multiplications, two additions, one after the other."""
    return Rule(rule.kind, 6, (Each(2),)) if any(tensor.is_complex() for tensor in called.outputs) else rule


SPECIAL: dict[str, Callable[[Called, Rule], Rule]] = {
    "pow": _power,
    "mul": _complex,
    "gelu": _gelu,
    **dict.fromkeys(("max", "min"), _of_two),
    **dict.fromkeys(BATCH_NORMS, _moments),
    **dict.fromkeys(("sort", "topk", "kthvalue", "argsort"), _sorted),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), _transform),
}
