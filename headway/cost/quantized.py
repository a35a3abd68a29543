"""What quantised weights cost: their bytes, and the tokens a second that reading them allows."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from headway.config.model import ModelConfig
from headway.config.weights import WeightsConfig
from headway.cost.setting import BYTES
from headway.cost.time.machine import Machine
from headway.models import on_meta
from headway.models.quantize import weight_bytes
from headway.nn.layers import LearnedPositions


@dataclass(frozen=True)
class QuantizedCost:
    """Bytes of all weights, and of those that a decoding step reads (a table is looked up, not read).

    limit: tokens a second of one stream at which the step would do nothing but read, on the machine that was measured.
    expected: with the rest of the step as it is predicted for floating-point weights.
    """

    weights: str
    bytes: int
    read: int
    limit: float | None = None
    expected: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        found = f"{self.weights} weights: {self.bytes:,} bytes, of which a decoding step reads {self.read:,}"
        if self.limit is None:
            return f"{found}; `headway cost --machine` measures how many tokens a second that allows"
        rest = "" if self.expected is None else f", {self.expected:,.0f} expected"
        return f"{found}: at most {self.limit:,.0f} tokens a second of one stream here{rest}"


def quantized_cost(
    config: ModelConfig, weights: WeightsConfig, dtype: str, machine: Machine | None = None, decode: float | None = None
) -> QuantizedCost:
    """Of a model whose other weights are of `dtype`; `decode`: predicted seconds of a step in `dtype` throughout."""
    small, size = on_meta(config.replace(weights=weights)), BYTES[dtype]
    total, read = weight_bytes(small, size), read_bytes(small, size)
    if machine is None or dtype not in machine.rates or not config.writes:
        return QuantizedCost(str(weights), total, read)
    bandwidth = machine.bandwidth(dtype)
    saved = (read_bytes(on_meta(config), size) - read) / bandwidth
    expected = None if decode is None else 1 / max(decode - saved, read / bandwidth)
    return QuantizedCost(str(weights), total, read, bandwidth / read, expected)


def read_bytes(model: nn.Module, itemsize: int) -> int:
    """Of one decoding step: all weights but tables, and a tied head's table after all."""
    tables = [part for part in model.modules() if isinstance(part, nn.Embedding | LearnedPositions)]
    looked_up = sum(part.weight.numel() for part in tables)
    tied = getattr(model, "head", model) is None
    head = model.output_weight.numel() if tied else 0  # type: ignore[union-attr]
    return weight_bytes(model, itemsize) - itemsize * (looked_up - head)
