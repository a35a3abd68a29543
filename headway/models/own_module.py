"""A module of the user's own as a language model: it is trained, saved, loaded, measured and sampled like the others.

The module reads tokens (B L) and gives logits (B L V): the tensor itself, an object or a mapping with `logits`, or a
tuple that begins with it. It is called with tokens alone, and only with real ones: rows of different lengths are read
one length at a time, so that neither padding nor its side can change a result. Each token that is generated reads the
whole text again.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.importing import import_named, split_name
from headway.config.text import ModuleConfig
from headway.models.model import Model
from headway.models.sessions import RereadSession
from headway.nn.context import as_keep, check_tokens
from headway.ops.loss import cross_entropy_sum, next_targets

# Where modules say how many tokens they read at most, themselves or their configuration.
LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx", "length",
           "block_size", "context_length", "max_seq_len", "max_length")  # fmt: skip


class OwnModule(Model):
    """A language model around a module that a function of the user's own makes."""

    config: ModuleConfig

    def __init__(self, config: ModuleConfig, module: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        # Its buffers come from its own code: without memory, as models of ours are made first, they would be lost.
        with torch.device("cpu"):
            self.module = make_module(config.function) if module is None else module

    def forward(
        self, tokens: Int[Tensor, "B L"], *, keep: Tensor | None = None, positions: Any = None, mask: Any = None,
        attention_mask: Tensor | None = None,
    ) -> Float[Tensor, "B L V"]:  # fmt: skip
        """The logits of what follows each token; zeros at padding (`keep` False)."""
        keep = as_keep(keep, tokens, attention_mask)
        return self.hidden_states(tokens, keep=keep, positions=positions, mask=mask)

    def hidden_states(
        self, tokens: Int[Tensor, "B L"], *, keep: Tensor | None = None, positions: Any = None, mask: Any = None
    ) -> Float[Tensor, "B L V"]:
        """The logits: nobody but the module itself knows of vectors before them."""
        if positions is not None or mask is not None:
            raise ValueError(f"{self.config.function} reads whole rows of tokens: it takes no positions and no mask")
        check_tokens(tokens, self.config.vocabulary)
        real = as_keep(keep, tokens)
        if real is None or bool(real.all()):
            return self._logits(tokens)
        return self._each_length(tokens, real)

    def _each_length(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        found: Tensor | None = None
        lengths = keep.sum(-1)
        for length in lengths[lengths > 0].unique().tolist():
            alike = keep & (lengths == length)[:, None]
            part = self._logits(tokens[alike].view(-1, length))
            found = part.new_zeros(*tokens.shape, part.shape[-1]) if found is None else found
            found = found.index_put(alike.nonzero(as_tuple=True), part.flatten(0, 1))
        assert found is not None, "a batch of padding alone"
        return found

    def _logits(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        return read_logits(self.module(tokens), tokens, self.config.function)

    def logits(self, hidden: Float[Tensor, "*b V"]) -> Float[Tensor, "*b V"]:
        return hidden

    def cross_entropy(
        self, hidden: Float[Tensor, "B L V"], targets: Int[Tensor, "B L"], *, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ -log p(target), and how many targets are the likeliest token."""
        return cross_entropy_sum(hidden.flatten(0, 1), targets.flatten(), smoothing=smoothing)

    def loss(
        self,
        tokens: Int[Tensor, "B L"],
        targets: Int[Tensor, "B L"] | None = None,
        *,
        keep: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """The mean of -log p over the tokens that follow, as that of a Language."""
        real = as_keep(keep, tokens)
        logits = self.hidden_states(tokens, keep=real)
        if targets is None:
            logits, targets = logits[:, :-1], next_targets(tokens, real)
        total, _ = self.cross_entropy(logits, targets, smoothing=smoothing)
        return total / (targets >= 0).sum()

    def session(self, *, capacity: int | None = None, cache: bool = True) -> RereadSession:
        """An empty session, which reads everything again for each token: nobody knows of a cache."""
        return RereadSession(self, self.config.length)


def make_module(function: str, seed: int | None = None) -> nn.Module:
    """The module that package.module:function makes; with a seed, torch's draws begin there."""
    named = split_name(function)
    assert named is not None
    made = call_function(function, import_named(*named), seed)
    made = made[0] if isinstance(made, tuple) and made else made
    if not isinstance(made, nn.Module):
        raise ValueError(f"{function} gives a {type(made).__name__}: a module (nn.Module) is expected")
    return made


def call_function(name: str, function: Callable[[], Any], seed: int | None = None) -> Any:
    """What a function of the user's own makes; a call that fails is a ValueError in one sentence."""
    try:
        if seed is None:
            return function()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return function()
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(f"{name}, called without arguments, failed: {type(error).__name__}: {first}") from error


def draw(config: ModuleConfig, *, seed: int, dtype: torch.dtype) -> OwnModule:
    """The module with the first values that its own code draws, the same for the same seed."""
    return OwnModule(config, make_module(config.function, seed)).to(dtype)


def wrap(module: nn.Module, function: str, *, length: int | None = None) -> OwnModule:
    """A module that a function has made as a language model; its vocabulary is read from its logits.

    `length` is how many tokens it reads at most, where it does not say so itself.
    """
    with torch.no_grad():
        tokens = torch.zeros(1, 2, dtype=torch.long, device=next(iter(module.parameters()), torch.empty(0)).device)
        was = module.training
        try:
            vocabulary = read_logits(module.eval()(tokens), tokens, function).shape[-1]
        except (TypeError, RuntimeError, IndexError) as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise ValueError(f"{function} cannot be called with tokens (B L) alone: {first}") from error
        finally:
            module.train(was)
    most = length_of(module) or length
    if most is None:
        raise ValueError(
            f"{function} does not say how many tokens it reads at most: give its module an attribute `length`"
        )
    return OwnModule(ModuleConfig(function=function, vocabulary=vocabulary, length=most), module)


def length_of(module: nn.Module) -> int | None:
    """How many tokens a module, or its configuration, says that it reads at most."""
    for holder in (module, getattr(module, "config", None)):
        # A configuration of transformers means by max_length how much is generated.
        for name in LENGTHS if holder is module else LENGTHS[:-1]:
            if isinstance(found := getattr(holder, name, None), int) and found > 0:
                return found
    return None


def read_logits(output: Any, tokens: Int[Tensor, "B L"], function: str) -> Float[Tensor, "B L V"]:
    """The logits in what a module gives, after a look at their shape."""
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    found = getattr(output, "logits", output)
    if not isinstance(found, Tensor):
        raise ValueError(f"{function} gives a {type(found).__name__} where logits (B L V) are expected")
    if found.ndim != 3 or found.shape[:2] != tokens.shape:
        raise ValueError(
            f"{function} gives {tuple(found.shape)} for tokens {tuple(tokens.shape)}: logits of every token "
            "(B L V) are expected"
        )
    return found
