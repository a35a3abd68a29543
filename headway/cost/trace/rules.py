"""The table of unit costs: for every operation of torch's dispatcher its FLOPs an entry and its steps.

One FLOP and one step for each + - × ÷ exp log sqrt erf tanh and each maximum of two numbers. Moving numbers (views,
copies, lookups, selection by a mask), casts, signs and random draws are free. Integers and booleans are no floating
point: their steps count, their FLOPs do not. `n` is how many terms a sum, a product or a softmax has.

>>> RULES["gelu"].flops, RULES["_softmax"].kind, written(RULES["mean"].steps)
(5, 'attention', 'sum(n) + 1')
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from torch import Tensor

from headway.cost.trace.call import Called
from headway.cost.trace.products import PRODUCTS, Work
from headway.cost.trace.storages import Axes, sizes
from headway.ops import activation, norm
from headway.ops.activation import FLOPS
from headway.steps import POSITIONS, WIDTH, Each, Number, Step, Sum, levels, softmax_steps

N = "n"  # stands for the number of terms until an operation is met


@dataclass(frozen=True)
class Rule:
    """What one operation costs: FLOPs for each entry of its first input or of its output, and its steps."""

    kind: str
    flops: int
    steps: tuple[Step, ...]
    per: str = "output"


def curve(flops: int) -> Rule:
    """A function of single entries: so many FLOPs, one after the other."""
    return Rule("activation", flops, (Each(flops),))


def each(flops: int) -> Rule:
    return Rule("elementwise", flops, (Each(flops),))


def over(flops: int, *steps: Step, kind: str = "elementwise") -> Rule:
    """A sum, or what is made of sums: FLOPs for each entry that goes in."""
    return Rule(kind, flops, steps, per="input")


CURVES = activation.FLOPS
TOTAL = Sum(N)

# (the rule, the operations of torch that follow it, in words)
UNIT_COSTS: tuple[tuple[Rule, str, str], ...] = (
    (each(1), "one operation an entry", """
        add sub rsub mul div maximum minimum fmax fmin exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin
        cos tan sinh cosh asin acos atan atan2 erf erfc erfinv square floor ceil round trunc frac remainder fmod
        floor_divide clamp clamp_min clamp_max hypot lt le gt ge eq ne logical_and logical_or logical_xor bitwise_and
        bitwise_or bitwise_xor __and__ __or__ __xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift
        native_dropout histc ger polar"""),
    (each(2), "two an entry", "addcmul addcdiv addr xlogy logaddexp logaddexp2"),
    (each(3), "three an entry", "lerp logit"),
    (each(1), "a power: ⌈lg e⌉ multiplications for a whole exponent e (2 for a cube), else one", "pow"),
    (curve(CURVES["relu"]), "max(x, 0)", "relu relu6 threshold"),
    (curve(2), "two operations", "leaky_relu _prelu_kernel hardtanh rrelu_with_noise"),
    (curve(3), "exp, subtract, maximum (and a scale)", "elu selu celu softplus"),
    (curve(CURVES["sigmoid"]), "negate, exp, add, divide", "sigmoid hardsigmoid log_sigmoid_forward"),
    (curve(CURVES["tanh"]), "tanh", "tanh"),
    (curve(CURVES["silu"]), "x σ(x)", "silu hardswish glu"),
    (curve(CURVES["gelu"]), "x (1 + erf(x / √2)) / 2; 9 with tanh", "gelu"),
    (curve(6), "x tanh(log(1 + exp x))", "mish"),
    (over(5, *softmax_steps(N), kind="attention"), "maximum, subtract, exp, sum, divide",
     "_softmax _safe_softmax _masked_softmax"),
    (over(4, TOTAL, Each(2), TOTAL, Each(2), kind="loss"), "maximum, subtract, exp, sum; log and subtract",
     "_log_softmax logsumexp"),
    (over(norm.COSTS["layer"].flops, *norm.norm_steps("layer", N), kind="norm"), "layer norm", "native_layer_norm"),
    (over(norm.COSTS["batch"].flops, *norm.norm_steps("batch", N), kind="norm"),
     "batch and group norm; 4 with known moments",
     """native_batch_norm _native_batch_norm_legit cudnn_batch_norm
        _batch_norm_with_update _native_batch_norm_legit_no_training _batch_norm_no_update native_group_norm"""),
    (over(norm.COSTS["rms"].flops, *norm.norm_steps("rms", N), kind="norm"), "rms norm", "_fused_rms_norm"),
    (over(1, TOTAL), "a sum or a maximum; a running sum too",
     """sum nansum prod amax amin max min argmax argmin aminmax any all cumsum cumprod cummax cummin logcumsumexp
        count_nonzero median mode max_pool1d max_pool2d_with_indices max_pool3d_with_indices"""),
    (over(1, TOTAL), "rows added into rows: as deep as a sum of them all", "index_add scatter_add"),
    (over(1, TOTAL, Each(1)), "a mean", """mean nanmean avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d"""),
    (over(2, Each(1), TOTAL, Each(1)), "square, sum, root", "linalg_vector_norm norm _weight_norm_interface"),
    (over(4, TOTAL, Each(3), TOTAL, Each(1)), "mean; subtract, square, sum, divide", "var var_mean std std_mean"),
    (over(1, TOTAL, Each(1), kind="loss"), "the mean of the chosen log-probabilities",
     "nll_loss_forward nll_loss2d_forward"),
    (over(3, Each(2), TOTAL, Each(1), kind="loss"), "a difference, its measure, the mean",
     "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div"),
    (over(1, TOTAL), "a sorting network: ⌈lg n⌉(⌈lg n⌉ + 1)/2 rounds of comparisons, n/2 in each",
     "sort topk kthvalue argsort"),
    (over(5, Each(3)), "5 lg n FLOPs an entry, lg n rounds of a complex multiplication and an addition",
     "_fft_r2c _fft_c2c _fft_c2r"),
)  # fmt: skip

RULES: dict[str, Rule] = {name: rule for rule, _, names in UNIT_COSTS for name in names.split()}

# Nothing is computed: numbers are made, moved, chosen or drawn.
_FREE = """
    alias detach view _unsafe_view reshape _reshape_alias t transpose permute expand select slice unbind split
    split_with_sizes unsafe_split unsafe_split_with_sizes chunk squeeze unsqueeze as_strided diagonal unfold narrow
    real imag view_as_real view_as_complex _conj movedim clone copy _to_copy _copy_from lift lift_fresh lift_fresh_copy
    contiguous cat stack repeat repeat_interleave tile embedding _embedding_bag index _unsafe_index index_select gather
    take take_along_dim where masked_fill masked_select index_put _unsafe_index_put index_fill index_copy scatter
    masked_scatter select_scatter slice_scatter diagonal_scatter fill zero zeros zeros_like ones ones_like empty
    empty_like empty_strided new_empty new_empty_strided new_zeros new_ones new_full full full_like arange linspace eye
    scalar_tensor tril triu tril_indices triu_indices roll flip rot90 constant_pad_nd reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d im2col col2im pixel_shuffle pixel_unshuffle
    upsample_nearest1d upsample_nearest2d one_hot bernoulli uniform normal random rand randn randint rand_like
    randn_like randperm exponential multinomial neg abs sign sgn logical_not bitwise_not isnan isinf isfinite
    nan_to_num bucketize searchsorted nonzero _unique2 unique_consecutive _local_scalar_dense equal is_same_size
    set resize resize_as record_stream _assert_async _assert_scalar sym_size _nested_tensor_from_mask set_data
    channel_shuffle conj_physical resolve_conj resolve_neg complex _has_compatible_shallow_copy_type"""
FREE = frozenset(_FREE.split())


def filled(steps: tuple[Step, ...], terms: int, where: str) -> tuple[Step, ...]:
    """A rule's steps with the number of terms put in, and over what they run."""
    return tuple(step if isinstance(step, Each) else replace(step, terms=terms, over=where) for step in steps)


def written(steps: tuple[Step, ...]) -> str:
    """Steps as one reads them: sum(n) + 2 + sum(n) + 1."""
    return " + ".join(_word(step) for step in steps) or "0"


def _word(step: Step) -> str:
    terms: Number = step.steps if isinstance(step, Each) else step.terms
    return str(terms) if isinstance(step, Each) else f"{type(step).__name__.lower()}({terms})"


def table() -> list[tuple[str, str, str, str]]:
    """The rules as rows of words: operations, what they do, FLOPs, steps; the products first.

    >>> table()[0]
    ('mm bmm mv dot linear', 'inner products of n terms', '2 n a result', 'product(n)')
    """
    rows = [(" ".join(names.split()), words, _flops(rule), written(rule.steps)) for rule, words, names in UNIT_COSTS]
    return [*PRODUCT_ROWS, *rows, ("views, copies, lookups, masks, casts, draws", "moving numbers", "0", "0")]


def _flops(rule: Rule) -> str:
    return f"{rule.flops} an entry of the {rule.per}"


PRODUCT_ROWS = (
    ("mm bmm mv dot linear", "inner products of n terms", "2 n a result", "product(n)"),
    ("addmm baddbmm addmv", "and something added", "2 n + 1 a result", "product(n) + 1"),
    ("convolution", "n = kernel × channels of a group", "2 n (+ 1) a result", "product(n) (+ 1)"),
    ("scaled_dot_product_attention", "scores, scale, softmax, weighted sum", "2 (K + W) + 6 a score",
     "product(K) + 1 + softmax(M) + product(M)"),
    ("lstm", "gates of all inputs at once, then step by step", "2 a weight and step",
     "product(I) + 1 + (L - 1)(product(H) + 1) + 9 L"),
)  # fmt: skip


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


def _unbiased(called: Called, rule: Rule) -> Rule:
    """A layer norm with weights and without biases adds none."""
    if called.bound.get("weight") is None or called.bound.get("bias") is not None:
        return rule
    return over(norm.COSTS["layer_unbiased"].flops, *norm.norm_steps("layer_unbiased", N), kind=rule.kind)


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
    "native_layer_norm": _unbiased,
    **dict.fromkeys(("max", "min"), _of_two),
    **dict.fromkeys(BATCH_NORMS, _moments),
    **dict.fromkeys(("sort", "topk", "kthvalue", "argsort"), _sorted),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), _transform),
}
