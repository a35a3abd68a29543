"""Sees every attention of a running model, and computes its weights afterwards, for the requested rows and heads.

Headway's own layers pass a whole `Call` through their `core`; of any other model the functions of torch are watched:
`scaled_dot_product_attention`, torch's fused layers, and softmax over scores. The fast kernels stay on and the output
does not change by a bit: the queries and keys of each attention are kept. Of a model that writes its weights out, the
weights of the selected rows and heads are kept.

>>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
>>> with captured(layer) as found:
...     _ = layer(x := torch.ones(1, 3, 8), x, x, need_weights=False)
>>> found[0].weights(rows=slice(0, 1), heads=[1]).mul(3).round(decimals=4).tolist()
[[[[1.0, 1.0, 1.0]]]]
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, no_type_check

import torch
import torch.nn.functional as F
import torch.overrides
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.nn.attention import Core
from headway.observe.attention_event import (
    AttentionEvent,
    KernelCall,
    SoftmaxCall,
    of_encoder_layer,
    of_kernel,
    of_native,
    of_softmax,
    split,
)
from headway.observe.hooks import every_module
from headway.observe.lineage import FOLLOWED, HeadOutput, Lineage, Origin
from headway.observe.stored_call import StoredCall, call_of, store_call
from headway.observe.weights import CapturedAttention, Selection, store_weights
from headway.ops.attention import Call, record_of

# Attributes of modules that hold their number of heads.
_HEADS = ("num_heads", "n_heads", "heads", "num_attention_heads", "n_head", "nhead")

# Functions that are a whole layer: how its event is read, and the submodule that attends.
_FUSED = {
    "transformer_encoder_layer_fwd": (of_encoder_layer, ".self_attn"),
    "native_multi_head_attention": (of_native, ""),
}
_WATCHED = FOLLOWED | {"scaled_dot_product_attention", "softmax", "multi_head_attention_forward", *_FUSED}
# The attributes of a tensor that are a view of its values.
_TURNS = tuple(getattr(vars(torch._C.TensorBase)[name], "__get__") for name in ("mT", "T"))  # noqa: B009

# (module, event) -> the number of this attention; None where the output of its heads is not wanted
OnAttention = Callable[[str, AttentionEvent], int | None]
# (number, output of its heads, how to lay that out as B H L W)
OnOutput = Callable[[int, Tensor, Callable[[Tensor], Tensor]], None]


def _ignore(number: int, output: Tensor, lay: Callable[[Tensor], Tensor]) -> None:
    pass


class AttentionWatcher(TorchFunctionMode):
    """While it is entered, calls `on_attention` for each attention, and `on_output` once its heads' output is known."""

    def __init__(self, module: nn.Module, on_attention: OnAttention, on_output: OnOutput = _ignore) -> None:
        super().__init__()
        self.module, self.on_attention, self.on_output = module, on_attention, on_output
        self.lineage, self.running = Lineage(), list[tuple[str, nn.Module]]()
        self.names = {part: name for name, part in module.named_modules()}

    @contextmanager
    def watching(self) -> Iterator[None]:
        with every_module(self._enter, self._leave), hidden_from_torch(self), self:
            yield

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
                self._report(args[0], result, lambda x: x)
        finally:
            self.running.pop()
            if isinstance(part, Core):
                self.__enter__()

    def _report(self, event: AttentionEvent | None, result: Tensor, lay: Callable[[Tensor], Tensor]) -> None:
        number = None if event is None else self.on_attention(self._name(), event)
        if number is not None:
            self.on_output(number, result, lay)

    # Not checked in tests either: every reading of a shape passes here.
    @no_type_check
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        if name not in _WATCHED or (name == "get" and func not in _TURNS):
            return func(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with entering_attention(), self:
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        self._observe(name, args, kwargs, result)
        return result

    def _observe(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if name == "scaled_dot_product_attention":
            self._kernel(result, *args, **kwargs)
        elif name == "softmax":
            self._softmax(result, *args, **kwargs)
        elif name in _FUSED:
            read, part = _FUSED[name]
            event = read(*args, **kwargs)
            if event is not None:
                self.on_attention(self._name() + part, event)
        else:
            found = self.lineage.follow(name, args or tuple(kwargs.values()), result)
            if isinstance(found, HeadOutput):
                heads, laid = self._heads(), found.heads_first
                self.on_output(found.attention, found.out, lambda x: split(laid(x), heads))

    def _kernel(
        self, result: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, **_: Any,
    ) -> None:  # fmt: skip
        before = self.lineage.of(query).factor * self.lineage.of(key).factor
        heads = self._heads()
        seen = of_kernel(query, key, attn_mask, causal=is_causal, scale=scale, before=before, heads=heads)
        self._report(seen, result, lambda x: split(x, heads))

    def _softmax(self, result: Tensor, input: Tensor, dim: int | None = None, *_: Any, **more: Any) -> None:
        origin, last = self.lineage.of(input), dim in (-1, input.ndim - 1)
        # Without q and k, three axes may as well be positions and words.
        if not last or input.ndim < 3 or (input.ndim == 3 and origin.q is None) or not input.is_floating_point():
            return
        q = None if origin.q is None else origin.q.detach() / origin.before
        seen = of_softmax(input, result, q, origin.k, factor=origin.factor, heads=self._heads())
        number = None if seen is None else self.on_attention(self._name(), seen)
        if number is not None:
            self.lineage.mark(result, Origin(attention=number))

    def _name(self) -> str:
        name, part = self.running[-1] if self.running else ("", None)
        return name.removesuffix("core").removesuffix(".") if isinstance(part, Core) else name

    def _heads(self) -> int:
        """The heads of the running module: a tensor of three axes may have batch and heads in one."""
        part = self.running[-1][1] if self.running else self.module
        return next((n for name in _HEADS if isinstance(n := getattr(part, name, None), int) and n > 0), 1)


class AttentionRecorder:
    """`found` in order of running; layers that are not selected are only counted."""

    def __init__(self, selection: Selection) -> None:
        self.selection, self.found = selection, list[CapturedAttention]()
        self._count = 0
        self._latest: dict[str, CapturedAttention | None] = {}  # None: not selected

    @torch.no_grad()
    def see(self, name: str, event: AttentionEvent) -> None:
        if isinstance(event, SoftmaxCall):
            if self._counts(name):
                self._add(CapturedAttention(name, "softmax", [store_weights(event, self.selection)]))
            return
        call = call_of(event) if isinstance(event, KernelCall) else event
        if 0 not in (*call.q.shape, call.k.shape[2]) and not self._joined(name, call) and self._counts(name):
            self._add(CapturedAttention(name, record_of(call.spec).name, [store_call(call)]))

    def _counts(self, name: str) -> bool:
        self._count += 1
        self._latest[name] = None
        return self.selection.has_layer(self._count - 1)

    def _add(self, attention: CapturedAttention) -> None:
        self.found.append(attention)
        self._latest[attention.name] = attention

    def _joined(self, name: str, call: Call) -> bool:
        """One query that sees the keys of the call before, and perhaps more, is a further row of it."""
        if call.q.shape[2] != 1 or name not in self._latest:
            return False
        before = self._latest[name]
        if before is None:
            return True
        last = before.calls[-1]
        if not isinstance(last, StoredCall) or not last.goes_on(call):
            return False
        before.calls.append(store_call(call, last.keys))
        return True


@contextmanager
def captured(module: nn.Module, *, selection: Selection = Selection()) -> Iterator[list[CapturedAttention]]:  # noqa: B008
    """While it is entered, the list fills with the attentions of the module, in order of running."""
    recorder = AttentionRecorder(selection)
    with AttentionWatcher(module, recorder.see).watching():
        yield recorder.found


_Check = Callable[[Any], bool]


@contextmanager
def _replaced(owner: Any, answer: Callable[[_Check], _Check]) -> Iterator[None]:
    original = owner.has_torch_function
    setattr(owner, "has_torch_function", answer(original))  # noqa: B010
    try:
        yield
    finally:
        setattr(owner, "has_torch_function", original)  # noqa: B010


@contextmanager
def entering_attention() -> Iterator[None]:
    """Torch's attention function dispatches itself as a whole, and then hides its operations, unless its first
    `has_torch_function` answers no."""

    def no_once(original: _Check) -> _Check:
        def answer(_: Any) -> bool:
            setattr(F, "has_torch_function", original)  # noqa: B010
            return False

        return answer

    with _replaced(F, no_once):
        yield


@contextmanager
def hidden_from_torch(mode: TorchFunctionMode) -> Iterator[None]:
    """`has_torch_function`, by which torch's layers decide on their fused path, ignores this mode; any other counts."""

    def without(original: _Check) -> _Check:
        def answer(tensors: Any) -> bool:
            if not _on_top(mode):
                return original(tensors)
            with torch.overrides._pop_mode_temporarily():
                return original(tensors)

        return answer

    with _replaced(torch.overrides, without):
        yield


def _on_top(mode: TorchFunctionMode) -> bool:
    stack = torch.overrides._get_current_function_mode_stack()
    return bool(stack) and stack[-1] is mode
