"""Which submodule is running: hooks that every module calls, as long as a trace lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# words in the name of a class -> the kind of what it computes entry by entry
KINDS = {"norm": "norm", "activation": "activation", "gelu": "activation", "silu": "activation", "relu": "activation"}


class Places:
    """The path of the module that runs now; a module made on the way is named by its class."""

    def __init__(self, module: nn.Module) -> None:
        self.names = {id(inner): name for name, inner in module.named_modules()}
        self.stack: list[str] = []
        self.classes: list[str] = []

    @property
    def now(self) -> str:
        return self.stack[-1] if self.stack else ""

    @property
    def kind(self) -> str | None:
        """What the module that runs now is there for, if its class says: a norm that is written out is one too."""
        name = self.classes[-1].lower() if self.classes else ""
        return next((kind for word, kind in KINDS.items() if word in name), None)

    def enter(self, module: nn.Module, _: Any) -> None:
        unknown = ".".join(name for name in (self.now, type(module).__name__) if name)
        self.stack.append(self.names.get(id(module), unknown))
        self.classes.append(type(module).__name__)

    def leave(self, module: nn.Module, _: Any, __: Any) -> None:
        self.stack.pop()
        self.classes.pop()

    @contextmanager
    def watched(self) -> Iterator[None]:
        hooks = (
            register_module_forward_pre_hook(self.enter),
            register_module_forward_hook(self.leave, always_call=True),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            self.stack.clear()
            self.classes.clear()
