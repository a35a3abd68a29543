"""What every model has: its configuration, its loss, its tokenizer where it has one, and a short `print(model)`."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from headway.config import BlockConfig, StackConfig
from headway.config.generation import GenerationDefaults
from headway.nn.quantized import QuantizedLinear


class Model(nn.Module):
    """A torch module with a configuration; `print` says what it is in a few lines, `outline(model)` every tensor."""

    config: Any
    tokenizer: Any = None  # how text becomes tokens, where the model was loaded or trained with it
    generation_defaults: GenerationDefaults | None = None  # what is followed where a request says nothing
    origin: Any = None  # where it was loaded from, and what came with it

    without_adapter: Any = None  # what it is without the adapter that is switched on

    def loss(self, *inputs: Any, **options: Any) -> Tensor:
        """The mean loss of a batch, which each kind of model knows how to read."""
        raise NotImplementedError(f"a {type(self).__name__} has no loss of its own: compute one from its result")

    def __repr__(self) -> str:
        dtypes = sorted({str(weight.dtype).removeprefix("torch.") for weight in self.parameters()})
        dtypes += sorted({f"int{part.bits} weights" for part in self.modules() if isinstance(part, QuantizedLinear)})
        mode = "training" if self.training else "eval"
        head = f"{type(self).__name__}: {parameters(self):,} parameters, {', '.join(dtypes)}, {mode} mode"
        return "\n".join([head, *(f"  {line}" for line in _lines(self.config))])


def parameters(model: nn.Module) -> int:
    """How many parameters a model has, however they are stored; `Module.parameters` yields a shared one once."""
    stored = (one for one in model.modules() if isinstance(one, QuantizedLinear) and not one.shared)
    whole = sum(one.in_features * one.out_features for one in stored)
    return whole + sum(parameter.numel() for parameter in model.parameters())


def _lines(config: Any) -> Iterator[str]:
    sizes = ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        for name in (
            "vocabulary",
            "source_vocabulary",
            "target_vocabulary",
            "length",
            "image",
            "patch",
            "classes",
            "hidden",
        )
        if isinstance(value := getattr(config, name, None), int | tuple) and value
    )
    if sizes:
        yield sizes
    if (positions := getattr(config, "positions", None)) is not None:
        yield f"positions {positions}"
    for name in ("vision", "stack", "encoder", "decoder"):
        part = getattr(config, name, None)
        if isinstance(part, StackConfig):
            yield from _stack(name, part)
        elif part is not None:
            yield from _lines(part)


def _stack(name: str, c: StackConfig) -> Iterator[str]:
    bias = "" if c.bias is None else f", {c.bias.kind} bias"
    layers = f"{c.layers} layer{'' if c.layers == 1 else 's'}"
    yield f"{name}: {layers} of width {c.block.width}, {c.block.order}-norm ({c.block.norm}){bias}"
    for block in c.pattern:
        yield f"  {_block(block)}"


def _block(c: BlockConfig) -> str:
    a = c.attention
    groups = "" if a.kv_heads == a.heads else f" ({a.kv_heads} key/value)"
    parts = [f"{a.mechanism!r} attention, {a.heads} heads{groups} of {a.head_width}"]
    parts += [part for part, has in (("causal", a.causal), ("rotary", a.rotary is not None)) if has]
    parts += [] if c.cross is None else [f"cross-attention, {c.cross.heads} heads"]
    if c.feedforward is not None:
        gated = "gated " if c.feedforward.gated else ""
        parts.append(f"feed-forward {c.feedforward.hidden} {gated}{c.feedforward.activation}")
    return ", ".join(parts)
