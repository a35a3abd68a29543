"""Sees every attention of a running model, without a change to what it computes.

Headway's own layers pass a whole `Call` through their `core`; of any other model the functions of torch are watched:
`scaled_dot_product_attention`, torch's fused layers, and softmax over scores.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, no_type_check

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from headway.look.capture.lineage import FOLLOWED, Gathered, Lineage, Origin
from headway.look.capture.questions import looked_into, unnoticed
from headway.look.capture.sight import Sight, of_encoder_layer, of_kernel, of_native, of_softmax, split
from headway.nn.attention import Core

# By what names modules say how many heads they have.
_HEADS = ("num_heads", "n_heads", "heads", "num_attention_heads", "n_head", "nhead")

# Functions that are a whole layer: what they show, and the part of their module that attends.
_FUSED = {
    "transformer_encoder_layer_fwd": (of_encoder_layer, ".self_attn"),
    "native_multi_head_attention": (of_native, ""),
}
_WATCHED = FOLLOWED | {"scaled_dot_product_attention", "softmax", "multi_head_attention_forward", *_FUSED}
# Of all attributes, those that are another view of the values.
_TURNS = tuple(getattr(vars(torch._C.TensorBase)[name], "__get__") for name in ("mT", "T"))  # noqa: B009

# (module, what was seen) -> the number of this attention; None where nobody wants to hear what its heads gather
See = Callable[[str, Sight], int | None]
# (number, what its heads gathered, how to lay that out as B H L W)
Gather = Callable[[int, Tensor, Callable[[Tensor], Tensor]], None]


def _nothing(number: int, gathered: Tensor, lay: Callable[[Tensor], Tensor]) -> None:
    pass


class Watch(TorchFunctionMode):
    """While it is entered, calls `see` for each attention, and `gather` once the output of its heads is known."""

    def __init__(self, module: nn.Module, see: See, gather: Gather = _nothing) -> None:
        super().__init__()
        self.module, self.see, self.gather = module, see, gather
        self.lineage, self.running = Lineage(), list[tuple[str, nn.Module]]()
        self.names = {part: name for name, part in module.named_modules()}

    @contextmanager
    def watching(self) -> Iterator[None]:
        # Hooks on all modules there are: a layer of torch that finds one of its own takes another way.
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            with unnoticed(self), self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, part: nn.Module, _: Any) -> None:
        if part in self.names:
            self.running.append((self.names[part], part))
            if isinstance(part, Core):
                # What the core does inside is seen as one call, and once.
                self.__exit__(None, None, None)

    def _leave(self, part: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if part not in self.names:
            return
        try:
            if isinstance(part, Core) and result is not None:  # None: it raised
                self._see(args[0], result, lambda x: x)
        finally:
            self.running.pop()
            if isinstance(part, Core):
                self.__enter__()

    def _see(self, sight: Sight | None, result: Tensor, lay: Callable[[Tensor], Tensor]) -> None:
        number = None if sight is None else self.see(self._name(), sight)
        if number is not None:
            self.gather(number, result, lay)

    # Not checked in tests either: every reading of a shape passes here.
    @no_type_check
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        if name not in _WATCHED or (name == "get" and func not in _TURNS):
            return func(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with looked_into(), self:
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        self._look(name, args, kwargs, result)
        return result

    def _look(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if name == "scaled_dot_product_attention":
            self._kernel(result, *args, **kwargs)
        elif name == "softmax":
            self._softmax(result, *args, **kwargs)
        elif name in _FUSED:
            read, part = _FUSED[name]
            sight = read(*args, **kwargs)
            if sight is not None:
                self.see(self._name() + part, sight)
        else:
            found = self.lineage.follow(name, args or tuple(kwargs.values()), result)
            if isinstance(found, Gathered):
                heads, laid = self._heads(), found.heads_first
                self.gather(found.attention, found.out, lambda x: split(laid(x), heads))

    def _kernel(
        self, result: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, **_: Any,
    ) -> None:  # fmt: skip
        before = self.lineage.of(query).factor * self.lineage.of(key).factor
        heads = self._heads()
        seen = of_kernel(query, key, attn_mask, causal=is_causal, scale=scale, before=before, heads=heads)
        self._see(seen, result, lambda x: split(x, heads))

    def _softmax(self, result: Tensor, input: Tensor, dim: int | None = None, *_: Any, **more: Any) -> None:
        origin, last = self.lineage.of(input), dim in (-1, input.ndim - 1)
        # Without q and k, three axes may as well be positions and words.
        if not last or input.ndim < 3 or (input.ndim == 3 and origin.q is None) or not input.is_floating_point():
            return
        q = None if origin.q is None else origin.q.detach() / origin.before
        seen = of_softmax(input, result, q, origin.k, factor=origin.factor, heads=self._heads())
        number = None if seen is None else self.see(self._name(), seen)
        if number is not None:
            self.lineage.mark(result, Origin(attention=number))

    def _name(self) -> str:
        name, part = self.running[-1] if self.running else ("", None)
        return name.removesuffix("core").removesuffix(".") if isinstance(part, Core) else name

    def _heads(self) -> int:
        """As the running module says: a tensor of three axes may have batch and heads in one."""
        part = self.running[-1][1] if self.running else self.module
        return next((n for name in _HEADS if isinstance(n := getattr(part, name, None), int) and n > 0), 1)
