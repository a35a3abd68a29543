"""Cross entropy of a linear head, and how often the head is right.

    loss = Σ_n logsumexp(z_n) - (1 - s) z_n[t_n] - s · mean(z_n)        z = scale · h Wᵀ + b, s the smoothing of labels

With a softcap c, z is c · tanh(z / c).

Where rows · V is large, logits live a few rows at a time: their gradient is known as soon as they are, so it is taken
on the spot, and neither pass holds a tensor of rows x V.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from headway.config.base import IGNORED
from headway.ops.values import readable
from headway.sizes import Number, Operation, other
from headway.steps import POSITIONS, Each, Sum

FEW = 2**18  # logits that are held at once without a thought: torch's own function is the fastest there
ENTRIES = 2**21  # logits that are held at once: 8 MiB of them stay near the processor


def linear_cross_entropy(
    hidden: Float[Tensor, "rows D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " rows"],
    *,
    bias: Float[Tensor, " V"] | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the losses, and the number of targets that have the largest logit; `chunk` rows are taken at a time.

    >>> hidden, weight = torch.tensor([[1.0], [1.0]]), torch.tensor([[0.0], [0.0]])
    >>> total, right = linear_cross_entropy(hidden, weight, torch.tensor([0, IGNORED]))
    >>> round(total.item(), 4), right.item()
    (0.6931, 1)
    """
    real = targets != IGNORED
    if readable(targets) and not bool(real.all()):  # what nobody asks for costs nothing, and NaN in it reaches nobody
        hidden, targets = hidden[real], targets[real]
    _check(targets, len(weight))
    if chunk is None and len(hidden) * len(weight) <= FEW:
        return _plainly(hidden, weight, bias, targets, scale, softcap, smoothing)
    rows = chunk or max(1, ENTRIES // len(weight))
    return _Chunked.apply(hidden, weight, bias, targets, scale, softcap, smoothing, rows)


class LinearHead(NamedTuple):
    """What gives logits, z = scale · h Wᵀ: rows and weight, and a cap."""

    hidden: Float[Tensor, "N D"]
    weight: Float[Tensor, "V D"]
    scale: float = 1.0
    softcap: float | None = None

    def logits(self, rows: slice) -> Float[Tensor, "n V"]:
        """In float32 at least."""
        wide = torch.promote_types(self.hidden.dtype, torch.float32)
        found = F.linear(self.hidden[rows].to(wide) * self.scale, self.weight.to(wide))
        return found if self.softcap is None else self.softcap * torch.tanh(found / self.softcap)


def log_probabilities(head: LinearHead, targets: Int[Tensor, " N"], *, chunk: int | None = None) -> Float[Tensor, " N"]:
    """log p of each target, `chunk` rows of logits at a time; the way back computes them again.

    >>> log_probabilities(LinearHead(torch.ones(2, 1), torch.zeros(4, 1)), torch.tensor([0, 3])).exp().tolist()
    [0.25, 0.25]
    """
    _check(targets, len(head.weight))

    def some(hidden: Tensor, weight: Tensor, rows: slice) -> Tensor:
        logits = head._replace(hidden=hidden, weight=weight).logits(rows)
        return logits.gather(-1, targets[rows, None])[:, 0] - logits.logsumexp(-1)

    parts = [_again(some, head, rows) for rows in _slices(head, chunk)]
    return torch.cat(parts) if parts else head.hidden.new_zeros(0, dtype=torch.float32)


def divergence(
    head: LinearHead, teacher: LinearHead, *, temperature: float = 1.0, chunk: int | None = None
) -> Float[Tensor, ""]:
    """Σ_n T² KL(softmax(z'_n / T) ‖ softmax(z_n / T)), z' the teacher's logits (arXiv:1503.02531); in chunks, too.

    >>> same = LinearHead(torch.ones(2, 1), torch.tensor([[0.0], [1.0]]))
    >>> divergence(same, same, temperature=2.0).item()
    0.0
    """

    def some(hidden: Tensor, weight: Tensor, rows: slice) -> Tensor:
        own = head._replace(hidden=hidden, weight=weight).logits(rows)
        wanted = teacher.logits(rows).to(own.dtype)
        p, q = (F.log_softmax(logits / temperature, dim=-1) for logits in (wanted, own))
        return temperature**2 * F.kl_div(q, p, log_target=True, reduction="sum")

    parts = [_again(some, head, rows) for rows in _slices(head, chunk)]
    return torch.stack(parts).sum() if parts else (head.hidden.sum() + head.weight.sum()) * 0.0


def _slices(head: LinearHead, chunk: int | None) -> list[slice]:
    rows = chunk or max(1, ENTRIES // len(head.weight))
    return [slice(start, start + rows) for start in range(0, len(head.hidden), rows)]


def _again(some: Any, head: LinearHead, rows: slice) -> Tensor:
    """Nothing but hidden vectors and weights is kept for the way back."""
    return checkpoint(some, head.hidden, head.weight, rows, use_reentrant=False, preserve_rng_state=False)


def cross_entropy_sum(
    logits: Float[Tensor, "rows V"], targets: Int[Tensor, " rows"], *, smoothing: float = 0.0
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The same of logits: the sum of the losses, and the number of targets that have the largest one.

    >>> total, right = cross_entropy_sum(torch.zeros(2, 4), torch.tensor([0, 3]))
    >>> round(total.item(), 4), right.item()
    (2.7726, 1)
    """
    if readable(targets):
        _check(targets[targets != IGNORED], logits.shape[1])
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = F.cross_entropy(wide, targets, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")
    return total, (wide.detach().argmax(-1) == targets).sum()


def _plainly(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    scale: float,
    softcap: float | None,
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(hidden.dtype, torch.float32)
    hidden = hidden.to(wide) if scale == 1.0 else hidden.to(wide) * scale
    logits = F.linear(hidden, weight.to(wide), None if bias is None else bias.to(wide))
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    total = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return total, (logits.detach().argmax(-1) == targets).sum()


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        softcap: float | None,
        smoothing: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        needs = ctx.needs_input_grad[:3]
        total, right = hidden.new_zeros((), dtype=wide), targets.new_zeros(())
        w, b = weight.to(wide), None if bias is None else bias.to(wide)
        d_hidden = torch.empty_like(hidden) if needs[0] else None
        d_weight = torch.zeros_like(w) if needs[1] else None
        d_bias = torch.zeros_like(b) if b is not None and needs[2] else None
        # Of shapes alone every part is like the first, but for the last.
        parts = range(0, len(hidden), rows)
        for start in parts if readable(hidden) else (*parts[:2], *parts[2:][-1:]):
            part = slice(start, start + rows)
            x = hidden[part].to(wide) * scale
            logits, share = F.linear(x, w, b), None
            if softcap is not None:
                share = logits.div_(softcap).tanh_()
                logits = share * softcap
            loss, found, slope = _losses(logits, targets[part], smoothing, gradient=any(needs))
            if share is not None and any(needs):
                slope *= share.square_().neg_().add_(1)  # of the cap: 1 - tanh²
            total += loss
            right += found
            if d_hidden is not None:
                d_hidden[part] = (slope @ w) * scale
            if d_weight is not None:
                d_weight.addmm_(slope.mT, x)
            if d_bias is not None:
                d_bias += slope.sum(0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        return (
            None if d_hidden is None else d_hidden * gradient.to(d_hidden.dtype),
            None if d_weight is None else (d_weight * gradient).to(ctx.dtypes[0]),
            None if d_bias is None else (d_bias * gradient).to(ctx.dtypes[1]),
            None, None, None, None, None,
        )  # fmt: skip


def _losses(
    logits: Float[Tensor, "n V"], targets: Int[Tensor, " n"], smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Int[Tensor, ""], Float[Tensor, "n V"]]:
    """Sum, number right, and the gradient softmax(z) - (1 - s) [v = t] - s/V, in the memory of the logits."""
    high, best = logits.max(-1)
    asked = logits.gather(1, targets[:, None])
    # A mean of differences: with labels smoothed by much, a mean of large logits would cost digits.
    aside = (logits - high[:, None]).mean(-1).sum() + high.sum() if smoothing else 0.0
    slope = logits.sub_(high[:, None]).exp_()
    share = slope.sum(-1, keepdim=True)
    total = (high + share[:, 0].log()).sum() - (1 - smoothing) * asked.sum() - smoothing * aside
    if gradient:
        slope.div_(share)
        slope.scatter_add_(1, targets[:, None], slope.new_full((1, 1), smoothing - 1).expand(len(targets), 1))
        slope.sub_(smoothing / logits.shape[1]) if smoothing else None
    return total, (best == targets).sum(), slope


def _check(targets: Tensor, vocabulary: int) -> None:
    known = targets.numel() and readable(targets)
    low, high = (int(bound) for bound in targets.aminmax()) if known else (0, 0)
    if low < 0 or high >= vocabulary:
        raise ValueError(f"target {low if low < 0 else high} is outside of the vocabulary of {vocabulary}")


def loss_price(rows: Number, classes: Number) -> Operation:
    """Maximum, subtract, exp and sum for each logit forwards (4 FLOPs), exp, divide and subtract backwards (3)."""
    logits = rows * classes
    steps = (Sum(classes), Each(2), Sum(classes), Each(2), Sum(rows, POSITIONS), Each(1))
    return Operation("loss", other(4 * logits), other(3 * logits), steps=steps, reads=logits, writes=rows)


def next_targets(tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None) -> Int[Tensor, "B L-1"]:
    """What follows each token but the last; nothing is asked of padding, nor of what would follow it."""
    following = tokens[:, 1:].long()
    if keep is None:
        return following
    return following.masked_fill(~(keep[:, 1:] & keep[:, :-1]), IGNORED)
