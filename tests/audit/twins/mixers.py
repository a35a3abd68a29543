"""Ways to mix positions other than attention, each with the signature of the plain GPT's attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.audit.twins.plain import WIDTH, Past, merge, split


def heard(visible: Tensor) -> Tensor:
    """B M 1: keys that somebody sees; padding is what nobody does."""
    return visible.any(2)[:, 0, :, None]


class Linear(nn.Module):
    """Linear attention: φ(q) Σ φ(k) vᵀ / φ(q) Σ φ(k), the sums over what came before, with φ = elu + 1."""

    def __init__(self, layer: int = 0) -> None:
        super().__init__()
        self.layer = layer
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        q, k, v = split(self.qkv(x))
        k = self.hidden(F.elu(k) + 1, heard(visible)[:, None])
        products, keys = self.summed(k[..., :, None] * v[..., None, :], past, "p"), self.summed(k, past, "k")
        q = F.elu(q) + 1
        found = torch.einsum("bhlk,bhlkw->bhlw", q, products)
        return self.out(merge(found / ((q * keys).sum(-1, keepdim=True) + 1e-6)))

    def hidden(self, k: Tensor, keep: Tensor) -> Tensor:
        return k.masked_fill(~keep[:, :, -k.shape[2] :], 0.0)

    def summed(self, terms: Tensor, past: Past | None, name: str) -> Tensor:
        """Sums up to each place, from where the past stopped."""
        sums = self.running(terms)
        if past is None:
            return sums
        held = past.keys if name == "k" else past.values
        if self.layer in held:
            sums = sums + held[self.layer]
        held[self.layer] = self.left(sums)
        return sums

    def left(self, sums: Tensor) -> Tensor:
        return sums[:, :, -1:]

    def running(self, terms: Tensor) -> Tensor:
        return terms.cumsum(2)


class Convolution(nn.Module):
    """Each channel's weighted sum of this token and the three before it, as in Mamba and its kin."""

    taps = 4

    def __init__(self, layer: int = 0) -> None:
        super().__init__()
        self.layer = layer
        self.conv = nn.Conv1d(WIDTH, WIDTH, self.taps, groups=WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        x = self.hidden(x, heard(visible)[:, -x.shape[1] :]).mT
        return self.out(F.silu(self.conv(self.padded(x, past))).mT)

    def hidden(self, x: Tensor, keep: Tensor) -> Tensor:
        return x.masked_fill(~keep, 0.0)

    def padded(self, x: Tensor, past: Past | None) -> Tensor:
        """The three tokens before the first, of the past or zeros, come first."""
        before = x.new_zeros(*x.shape[:2], self.taps - 1)
        if past is not None and self.layer in past.keys:
            before = past.keys[self.layer]
        whole = torch.cat([before, x], -1)
        if past is not None:
            past.keys[self.layer] = self.left(whole)
        return whole

    def left(self, whole: Tensor) -> Tensor:
        return whole[..., -(self.taps - 1) :]


class Shift(nn.Module):
    """Mixes each token with the one before it, as RWKV's time mixing does."""

    def __init__(self, layer: int = 0) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.rand(WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        x = x.masked_fill(~heard(visible), 0.0)
        return self.out(x + self.share * self.moved(x))

    def moved(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 1, 0))[:, :-1]


class Routed(nn.Module):
    """A feed-forward of four experts, each token to the one it likes best (Switch: arXiv:2101.03961)."""

    experts = 4

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, self.experts)
        self.up = nn.Parameter(torch.randn(self.experts, WIDTH, WIDTH) * WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        share = self.liking(x).softmax(-1) * 3
        chosen = self.chosen(share)
        return torch.einsum("ble,bld,edf->blf", share * chosen, x, self.up)

    def liking(self, x: Tensor) -> Tensor:
        return self.router(x)

    def chosen(self, share: Tensor) -> Tensor:
        return share == share.max(-1, keepdim=True).values
