"""Sees every attention of a running model, without a change to what it computes.

Headway's own layers pass a whole `Call` through their `core`; of any other model the functions of torch are watched:
`scaled_dot_product_attention`, and softmax over scores. What is seen is measured at once and let go.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, no_type_check

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from headway.audit.health.lineage import FOLLOWED, Gathered, Lineage, Origin
from headway.audit.health.seen import Seen, of_call, of_kernel, of_softmax, split
from headway.nn.attention import Core

# By what names modules say how many heads they have.
_HEADS = ("num_heads", "n_heads", "heads", "num_attention_heads", "n_head", "nhead")

_WATCHED = FOLLOWED | {"scaled_dot_product_attention", "softmax", "multi_head_attention_forward"}
# Of all attributes, those that are another view of the values.
_TURNS = tuple(getattr(vars(torch._C.TensorBase)[name], "__get__") for name in ("mT", "T"))  # noqa: B009

# (module, what was seen) -> the number of this attention
See = Callable[[str, Seen], int]
# (number, what its heads gathered, how to lay that out as B H L W)
Gather = Callable[[int, Tensor, Callable[[Tensor], Tensor]], None]


class Watch(TorchFunctionMode):
    """While it is entered, calls `see` for each attention, and `gather` once the output of its heads is known."""

    def __init__(self, module: nn.Module, see: See, gather: Gather) -> None:
        super().__init__()
        self.module, self.see, self.gather = module, see, gather
        self.lineage, self.running = Lineage(), list[tuple[str, nn.Module]]()
        self.unmeasured: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles: list[RemovableHandle] = []
        for name, part in self.module.named_modules():
            handles.append(part.register_forward_pre_hook(self._enter(name)))
            if isinstance(part, Core):
                handles.append(part.register_forward_pre_hook(self._hush))
                handles.append(part.register_forward_hook(self._core, always_call=True))
            handles.append(part.register_forward_hook(self._leave, always_call=True))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, name: str) -> Callable[[nn.Module, Any], None]:
        return lambda part, _: self.running.append((name, part))

    def _leave(self, *_: Any) -> None:
        self.running.pop()

    def _hush(self, *_: Any) -> None:
        # What the core does inside is seen as one call, and once.
        self.__exit__(None, None, None)

    def _core(self, _: nn.Module, args: tuple[Any, ...], result: Tensor | None) -> None:
        try:
            name, seen = self.running[-1][0].removesuffix(".core"), of_call(args[0])
            if seen is None:
                self.unmeasured.append(name)
            elif result is not None:  # None: it raised
                self.gather(self.see(name, seen), result, lambda x: x)
        finally:
            self.__enter__()

    # Not checked in tests either: every reading of a shape passes here.
    @no_type_check
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        if name not in _WATCHED or (name == "get" and func not in _TURNS):
            return func(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with _looked_into(), self:
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        self._look(name, args, kwargs, result)
        return result

    def _look(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if name == "scaled_dot_product_attention":
            self._kernel(result, *args, **kwargs)
        elif name == "softmax":
            self._softmax(result, *args, **kwargs)
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
        if seen is not None:
            self.gather(self.see(self._name(), seen), result, lambda x: split(x, heads))

    def _softmax(self, result: Tensor, input: Tensor, dim: int | None = None, *_: Any, **more: Any) -> None:
        origin, last = self.lineage.of(input), dim in (-1, input.ndim - 1)
        # Without q and k, three axes may as well be positions and words.
        if not last or input.ndim < 3 or (input.ndim == 3 and origin.q is None) or not input.is_floating_point():
            return
        q = None if origin.q is None else origin.q.detach() / origin.before
        seen = of_softmax(input, q, origin.k, factor=origin.factor, heads=self._heads())
        if seen is not None:
            self.lineage.mark(result, Origin(attention=self.see(self._name(), seen)))

    def _name(self) -> str:
        return self.running[-1][0] if self.running else ""

    def _heads(self) -> int:
        """As the running module says: a tensor of three axes may have batch and heads in one."""
        part = self.running[-1][1] if self.running else self.module
        return next((n for name in _HEADS if isinstance(n := getattr(part, name, None), int) and n > 0), 1)


@contextmanager
def _looked_into() -> Iterator[None]:
    """Torch's attention hands itself to us as a whole, and runs unseen unless its own first question is answered no."""
    asked: Any = F.has_torch_function  # type: ignore[attr-defined]

    def no_once(_: Any) -> bool:
        setattr(F, "has_torch_function", asked)  # noqa: B010
        return False

    setattr(F, "has_torch_function", no_once)  # noqa: B010
    try:
        yield
    finally:
        setattr(F, "has_torch_function", asked)  # noqa: B010
