"""A linear map whose weights are stored in 8 or 4 bits, and the choice of scales.

    y = x Wᵀ + b        W[o, i] = q[o, i] · scale[o, i // group]

This is the readable form: the weights become floating-point numbers again, a tile of them at a time, and then the
product is that of any linear map. So rows do not depend on one another, and the exactness of decoding stays.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from headway.config.weights import Scheme
from headway.native.build import library
from headway.native.linear import LinearWeights, PackedLinear, multiplies_rows
from headway.ops.linear import linear
from headway.ops.nonfinite_rows import CARE, at_least_float32, by_rows
from headway.ops.values import operations_are_followed

TILE = 2**20  # weights that are floating-point numbers at the same time
LARGEST = {8: 127, 4: 7}
SMALL = 2**14  # weights: below, torch's product costs no more than the call of a kernel
SEARCHED = 8  # ranges that are tried for each group of 4-bit weights


class QuantizedLinear(nn.Module):
    """`Linear` with stored whole numbers in place of its weight.

    8 bits: `weight` int8 [O, I]. 4 bits: `weight` uint8 [O, I / 2], an even input in the low half of a byte and the odd
    one after it in the high half. `scale` (and `minimum`, where the scheme has one): [O], or [O, I / group].

    >>> layer = QuantizedLinear.of(torch.tensor([[1.27, -0.5]]), None, Scheme(bits=8))
    >>> layer.weight.tolist(), layer(torch.ones(1, 2)).tolist()
    ([[127, -50]], [[0.77]])
    """

    weight: Tensor
    scale: Tensor
    minimum: Tensor | None

    def __init__(self, in_features: int, out_features: int, *, scheme: Scheme, bias: bool = True) -> None:
        super().__init__()
        if not scheme.fits(in_features):
            raise ValueError(f"{in_features} inputs are no whole groups of {scheme.group}")
        self.in_features, self.out_features, self.scheme = in_features, out_features, scheme
        self.bits, self.group = scheme.bits, scheme.group
        self._kernel: tuple[tuple, PackedLinear | None] | None = None  # from what was packed, and the result
        self.shared = False  # a head that is a copy of the embedding, which is counted there
        groups = () if self.group is None else (in_features // self.group,)
        stored, kind = (in_features, torch.int8) if self.bits == 8 else (in_features // 2, torch.uint8)
        scales, precision = (out_features, *groups), getattr(torch, scheme.scale)
        self.register_buffer("weight", torch.zeros(out_features, stored, dtype=kind))
        self.register_buffer("scale", torch.zeros(scales, dtype=precision))
        self.register_buffer("minimum", torch.zeros(scales, dtype=precision) if scheme.minimum else None)
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    @classmethod
    @torch.no_grad()
    def of(cls, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None, scheme: Scheme) -> "QuantizedLinear":
        """The map with the nearest weights; on meta its shapes alone."""
        with torch.device(weight.device):
            layer = cls(weight.shape[1], weight.shape[0], scheme=scheme, bias=bias is not None)
        if not weight.is_meta:
            layer._choose(weight.detach())
        if bias is not None:
            layer.bias = nn.Parameter(bias.detach(), requires_grad=False)
        return layer

    def _choose(self, weight: Tensor) -> None:
        """By slices of rows: the search holds several copies of a slice."""
        if not bool(weight.isfinite().all()):
            raise ValueError("weights that are not finite cannot be stored in fewer bits")
        for rows in self._slices():
            stored, scale, minimum = quantize(weight[rows], self.scheme)
            self.weight[rows], self.scale[rows] = stored, scale
            if self.minimum is not None and minimum is not None:
                self.minimum[rows] = minimum

    def _slices(self) -> Iterator[slice]:
        size = max(1, TILE // max(1, self.in_features))
        return (slice(start, start + size) for start in range(0, self.out_features, size))

    def dequantized(self, rows: slice = slice(None), *, dtype: torch.dtype = torch.float32) -> Float[Tensor, "O I"]:
        """The weights as floating-point numbers, of all outputs or of some."""
        minimum = None if self.minimum is None else self.minimum[rows]
        return dequantize(self.weight[rows], self.scale[rows], minimum, bits=self.bits, dtype=dtype)

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        return by_rows(self._product, x) if CARE.passes else self._product(x)

    def _product(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        wide = at_least_float32(x.dtype)
        given = x.to(wide)
        packed = self._packed_for(given)
        if packed is not None:
            return packed(given.reshape(-1, self.in_features)).view(*x.shape[:-1], -1).to(x.dtype)
        parts = [linear(given, self.dequantized(rows, dtype=wide)) for rows in self._slices()]
        found = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return (found if self.bias is None else found + self.bias).to(x.dtype)

    def _packed_for(self, x: Tensor) -> PackedLinear | None:
        """The weights as the compiled kernels read them, where these compute the product of rows like x."""
        if x.dtype != torch.float32 or not x.is_cpu or self.weight.numel() < SMALL or x.numel() == 0:
            return None
        if x.shape[-1] != self.in_features or operations_are_followed(x, self.weight):
            return None
        if torch.is_grad_enabled() and (x.requires_grad or (self.bias is not None and self.bias.requires_grad)):
            return None
        return self.packed()

    def packed(self) -> PackedLinear | None:
        """Packed once, and again when a number has changed; None where no kernel multiplies whole numbers."""
        kernels, parts = library(), (self.weight, self.scale, self.minimum, self.bias)
        state = (kernels, *parts, *(None if x is None or x.is_inference() else x._version for x in parts))
        if self._kernel is None or not all(map(_same, state, self._kernel[0])):
            weights = LinearWeights(self.weight, self.bias, self.scale, self.minimum)
            self._kernel = state, PackedLinear(kernels, weights) if multiplies_rows(kernels, weights) else None
        return self._kernel[1]

    def __getstate__(self) -> dict:
        """Packed weights are not copied and not saved."""
        return {**super().__getstate__(), "_kernel": None}  # type: ignore[misc]

    def _apply(self, fn, recurse: bool = True) -> "QuantizedLinear":  # type: ignore[override]
        """Scales keep their precision where the model changes its own: `model.bfloat16()` means activations."""
        before = {name: getattr(self, name) for name in ("scale", "minimum")}
        super()._apply(fn, recurse)
        for name, tensor in before.items():
            after = getattr(self, name)
            if tensor is not None and after.dtype != tensor.dtype:
                same = torch.empty(tensor.shape, dtype=tensor.dtype, device=after.device)
                setattr(self, name, same if tensor.is_meta else same.copy_(tensor))
        return self

    def extra_repr(self) -> str:
        group = "" if self.group is None else f", group={self.group}"
        sizes = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{sizes}, bits={self.bits}{group}, minimum={self.minimum is not None}"


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int) and one == other)


def rounding_error(layer: QuantizedLinear) -> float:
    """What rounding costs the weights on average, relative to their root mean square: numbers that are rounded to
    steps of `scale` are wrong by scale / √12.

    >>> round(rounding_error(QuantizedLinear.of(torch.linspace(-1, 1, 64)[None], None, Scheme(bits=8))), 4)
    0.0039
    """
    size = layer.dequantized().square().mean().sqrt().item()
    step = (layer.scale.float().square().mean() / 12).sqrt().item()
    return step / size if size else 0.0


def float_weight(layer: "nn.Linear | nn.Embedding | QuantizedLinear", dtype: torch.dtype) -> Float[Tensor, "O I"]:
    """The weight of a linear map or a table, however it is stored; whole numbers become `dtype`."""
    return layer.dequantized(dtype=dtype) if isinstance(layer, QuantizedLinear) else layer.weight


def dequantize(
    stored: Integer[Tensor, "O J"],
    scale: Float[Tensor, "*s"],
    minimum: Float[Tensor, "*s"] | None = None,
    *,
    bits: int = 8,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "O I"]:
    """The weights that stored whole numbers and their scales mean.

    >>> dequantize(torch.tensor([[0x98, 0x70]], dtype=torch.uint8), torch.tensor([[0.5, 2.0]]), bits=4).tolist()
    [[0.0, 0.5, -16.0, -2.0]]
    """
    numbers = stored.to(dtype) if bits == 8 else unpack(stored).to(dtype)
    if bits == 4 and minimum is None:
        numbers -= 8
    if scale.dim() == 1:
        return numbers.mul_(scale.to(dtype)[:, None])
    groups = numbers.view(*scale.shape, -1).mul_(scale.to(dtype)[..., None])
    if minimum is not None:
        groups += minimum.to(dtype)[..., None]
    return groups.view(len(stored), -1)


def pack(numbers: Integer[Tensor, "O I"]) -> Integer[Tensor, "O J"]:
    """Two numbers from 0 to 15 in a byte, the first in the low half.

    >>> pack(torch.tensor([[8, 9, 0, 7]])).tolist(), unpack(torch.tensor([[0x98, 0x70]], dtype=torch.uint8)).tolist()
    ([[152, 112]], [[8, 9, 0, 7]])
    """
    halves = numbers.to(torch.uint8).view(len(numbers), -1, 2)
    return halves[..., 0] | (halves[..., 1] << 4)


def unpack(stored: Integer[Tensor, "O J"]) -> Integer[Tensor, "O I"]:
    """The numbers that `pack` stored."""
    return torch.stack([stored & 15, stored >> 4], -1).flatten(1)


def quantize(
    weight: Float[Tensor, "O I"], scheme: Scheme
) -> tuple[Integer[Tensor, "O J"], Float[Tensor, "*s"], Float[Tensor, "*s"] | None]:
    """Stored numbers, scales and minimums of the nearest weights; the numbers are chosen for the rounded scales.

    8 bits: the largest weight of a group becomes 127. 4 bits: of several ranges the one with the least squared error.
    """
    outputs, precision = len(weight), getattr(torch, scheme.scale)
    groups = weight.to(torch.float32).view(outputs, -1, scheme.group or weight.shape[1])
    if scheme.minimum:
        scale, minimum = (one.to(precision) for one in search_range(groups))
        numbers = rounded(groups - minimum.float(), scale.float(), 0, 15)
    else:
        scale = (largest_scale(groups) if scheme.bits == 8 else search_scale(groups)).to(precision)
        minimum, low = None, -128 if scheme.bits == 8 else -8
        numbers = rounded(groups, scale.float(), low, -low - 1)
    if not bool(scale.isfinite().all()) or (minimum is not None and not bool(minimum.isfinite().all())):
        raise ValueError(f"these weights are too large for scales of {scheme.scale}")
    whole = numbers.view(outputs, -1).to(torch.int8)
    stored = whole if scheme.bits == 8 else pack(whole if scheme.minimum else whole + 8)
    shape = (outputs,) if scheme.group is None else (outputs, -1)
    return stored, scale.reshape(shape), None if minimum is None else minimum.reshape(shape)


def rounded(groups: Tensor, scale: Tensor, low: int, high: int) -> Tensor:
    """groups / scale, to the nearest whole number in the range; a scale of 0 gives 0."""
    return (groups / scale.masked_fill(scale == 0, 1)).round_().clamp_(low, high)


def largest_scale(groups: Float[Tensor, "O n g"]) -> Float[Tensor, "O n 1"]:
    """The scale at which the largest magnitude of a group is 127."""
    return groups.abs().amax(-1, keepdim=True) / LARGEST[8]


def search_scale(groups: Float[Tensor, "O n g"]) -> Float[Tensor, "O n 1"]:
    """The scale of 4-bit numbers from -8 to 7 with the least Σ (w - scale q)², of several that are tried.

    Each tried range gives numbers q, and these the scale Σ w q / Σ q² that fits them best. The scale may be negative:
    the range has one more number below 0 than above, and the largest weight may need it.
    """
    peak = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    best = scale = None
    for step in range(SEARCHED):
        q = rounded(groups, peak / -(6.4 + 0.4 * step), -8, 7)
        fitted = (groups * q).sum(-1, keepdim=True) / q.square().sum(-1, keepdim=True).clamp_(min=1)
        error = (groups - fitted * q).square_().sum(-1, keepdim=True)
        if best is None or scale is None:
            best, scale = error, fitted
        else:
            scale = torch.where(error < best, fitted, scale)
            best = torch.minimum(best, error)
    assert scale is not None
    return scale


def search_range(groups: Float[Tensor, "O n g"]) -> tuple[Float[Tensor, "O n 1"], Float[Tensor, "O n 1"]]:
    """Scale and minimum of 4-bit numbers from 0 to 15, of several ranges those with the least squared error."""
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    middle = groups.mean(-1, keepdim=True)
    best = scale = minimum = None
    for step in range(SEARCHED):
        tried = (high - low) / (13.8 + 0.4 * step)
        first = low + (high - low - 15 * tried) / 2
        q = rounded(groups - first, tried, 0, 15)
        around = q - q.mean(-1, keepdim=True)
        slope = ((groups - middle) * around).sum(-1, keepdim=True) / around.square().sum(-1, keepdim=True).clamp_(1e-9)
        start = middle - slope * q.mean(-1, keepdim=True)
        error = (groups - slope * q - start).square_().sum(-1, keepdim=True)
        if best is None or scale is None or minimum is None:
            best, scale, minimum = error, slope, start
        else:
            better = error < best
            scale, minimum = torch.where(better, slope, scale), torch.where(better, start, minimum)
            best = torch.minimum(best, error)
    assert scale is not None and minimum is not None
    return scale, minimum
