"""One pass forwards and one backwards, watched."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from headway.audit.health.depth import BlockStream, depth_of, logits_of, loss_of
from headway.audit.health.measure import SCORES, heads_of, relative_norm, relative_variation, scores_of
from headway.audit.health.record import Head, Health
from headway.audit.health.rules import symptoms
from headway.observe.attention import AttentionWatcher
from headway.observe.attention_event import AttentionEvent

Lay = Callable[[Tensor], Tensor]


@dataclass
class _Measured:
    """What was measured of each attention so far: statistics, and the outputs of heads, which the graph holds."""

    layers: list[list[Head]] = field(default_factory=list)
    outs: dict[int, tuple[Tensor, Lay]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    thinned: bool = False
    unmeasured: list[str] = field(default_factory=list)

    def see(self, module: str, event: AttentionEvent) -> int | None:
        seen = scores_of(event)
        if seen is None:
            self.unmeasured.append(module)
            return None
        self.calls[module] += 1
        name = module if self.calls[module] == 1 else f"{module} (call {self.calls[module]})"
        self.layers.append(heads_of(name, seen))
        self.thinned |= seen.rows.step > 1
        return len(self.layers) - 1

    def gather(self, number: int, out: Tensor, lay: Lay) -> None:
        heads, laid = self.layers[number], lay(out.detach())
        if number in self.outs or laid.ndim != 4 or laid.shape[1] != len(heads):
            return
        found = relative_variation(laid)
        self.layers[number] = [replace(one, variation=found[one.head]) for one in heads]
        self.outs[number] = (out, lay)

    def hear(self, gradients: list[Tensor | None]) -> None:
        for (number, (_, lay)), gradient in zip(self.outs.items(), gradients, strict=True):
            if gradient is not None:
                found = relative_norm(lay(gradient))
                self.layers[number] = [replace(one, heard=found[one.head]) for one in self.layers[number]]


def diagnose(module: nn.Module, run: Callable[[], Tensor], *, tokens: Tensor | None = None) -> Health:
    """How the attention of any model fares. `run` calls the module once and returns its output.

    Where that is `B L V` and `tokens` (`B L`) are what it read, gradients are those of the loss of the next tokens.
    The model's output, parameters and their `.grad` stay as they are.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.ones(1, 3, 8)
    >>> len(diagnose(attention, lambda: attention(x, x, x)[0]).heads)
    2
    """
    ward, stream = _Measured(), BlockStream(module)
    with torch.enable_grad(), AttentionWatcher(module, ward.see, ward.gather).watching(), stream.watching():
        out = run()
    if not isinstance(out, Tensor):
        raise ValueError(f"run returns the model's output as one tensor, not a {type(out).__name__}")
    gradients, said = _gradients(out, tokens, [x for _, x in stream.seen] + [x for x, _ in ward.outs.values()])
    ward.hear(gradients[len(stream.seen) :])
    heads = [one for layer in ward.layers for one in layer]
    depth, logits = depth_of(stream, gradients[: len(stream.seen)]), logits_of(out)
    return Health(heads, depth, logits, symptoms(heads, depth, logits), [*said, *_notes(ward, stream)])


def _gradients(out: Tensor, tokens: Tensor | None, wanted: list[Tensor]) -> tuple[list[Tensor | None], list[str]]:
    """The gradients at these tensors; no parameter's own is touched."""
    nothing: list[Tensor | None] = [None] * len(wanted)
    if not out.requires_grad or not out.is_floating_point():
        return nothing, ["no gradients: the output has none (frozen parameters, or a run under no_grad)"]
    loss, said = loss_of(out, tokens)
    places = [place for place, one in enumerate(wanted) if one.requires_grad]
    if places:
        found = torch.autograd.grad(loss, [wanted[place] for place in places], allow_unused=True)
        for place, one in zip(places, found, strict=True):
            nothing[place] = one
    return nothing, [said]


def _notes(ward: _Measured, stream: BlockStream) -> list[str]:
    found = []
    if ward.unmeasured:
        found.append(f"attention between channels is not measured: {', '.join(ward.unmeasured)}")
    if not ward.layers and not ward.unmeasured:
        found.append("no attention was seen: neither headway's own, nor scaled_dot_product_attention, nor a softmax")
    if any(one.variance is None and one.mechanism == "softmax" for layer in ward.layers for one in layer):
        found.append("some scores came from no product that was seen: nothing is said of their q, k and scale")
    if ward.thinned:
        found.append(f"of attention with more than {SCORES:,} scores, queries at even distances were looked at")
    if not stream.seen:
        found.append("no blocks were found (several modules of one class in one container): nothing is said of depth")
    return found
