"""Which operations are matrix products, and how each is counted."""

from collections.abc import Callable

from torch import Tensor

from headway.cost.trace.axes import Axes
from headway.cost.trace.call import Called
from headway.cost.trace.fused import (
    attention,
    attention_backward,
    convolution,
    convolution_backward,
    recurrence,
    recurrence_backward,
)
from headway.cost.trace.products import OPERANDS, Work, grouped, grouped_result, product

CONVOLUTIONS = ("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "mkldnn_convolution",
                "_slow_conv2d_forward")  # fmt: skip
KERNELS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention",
           "fused_attention_overrideable")  # fmt: skip

PRODUCTS: dict[str, Callable[[Called, Axes], Work]] = {
    **dict.fromkeys(OPERANDS, product),
    "_grouped_mm": grouped,
    **dict.fromkeys(CONVOLUTIONS, convolution),
    "convolution_backward": convolution_backward,
    **{f"_scaled_dot_product_{kernel}": attention for kernel in KERNELS},
    **{f"_scaled_dot_product_{kernel}_backward": attention_backward for kernel in KERNELS},
    "mkldnn_rnn_layer": recurrence,
    "mkldnn_rnn_layer_backward": recurrence_backward,
}

# operations -> the name of what is added at the end
ADDED: dict[str, str] = {name: added for name, (_, _, added) in OPERANDS.items() if added is not None}
ADDED |= dict.fromkeys(("addcmul", "addcdiv", "addr"), "self")

# operations that torch cannot run on shapes alone -> their result
STAND_INS: dict[str, Callable[[Called], Tensor]] = {"_grouped_mm": grouped_result}
