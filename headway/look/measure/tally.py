"""Sums over rows, chunk by chunk: what was measured of each head comes out as a mean."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.look.measure.ground import Ground
from headway.look.measure.views import distances, views_of
from headway.look.record import Kind, Measures, Side
from headway.look.roles import RARE, role_of


@dataclass
class Mean:
    """A mean over the rows that count, for each head; where none did it is None."""

    total: Tensor | float = 0.0
    rows: Tensor | float = 0.0

    def add(self, values: Float[Tensor, "*v h l"], counts: Bool[Tensor, "*#v #h l"]) -> None:
        counts = counts.expand(values.shape)
        self.total = self.total + values.double().where(counts, 0.0).sum(-1)
        self.rows = self.rows + counts.sum(-1)

    def of(self, *place: int) -> float | None:
        total, rows = (torch.as_tensor(one)[place].item() for one in (self.total, self.rows))
        return total / rows if rows else None


@dataclass
class Tally:
    """Entropy is of the rows that may see several keys; a view's share is of the rows that may see keys in it and keys
    outside of it, since the others have no choice."""

    kind: Kind
    queries: Side
    keys: Side
    entropy: Mean = field(default_factory=Mean)
    reach: Mean = field(default_factory=Mean)
    largest: Mean = field(default_factory=Mean)
    shares: Mean = field(default_factory=Mean)
    chances: Mean = field(default_factory=Mean)
    rows: int = 0

    def __post_init__(self) -> None:
        self.ground = Ground.of(self.queries, self.keys)
        self.views = views_of(self.kind, self.queries, self.keys)
        self.distance = distances(self.kind, self.queries, self.keys)

    def add(self, weights: Float[Tensor, "h l M"], may: Bool[Tensor, "a l M"], rows: slice) -> None:
        """`may`: the keys that each row may see, for each head or (a = 1) for all alike."""
        at, seen = self.ground.at(rows), may.sum(-1)
        self.rows += weights.shape[1]
        self.entropy.add(_entropy(weights) / seen.clamp(min=2).double().log(), seen > 1)
        self.largest.add(weights.amax(-1), seen > 0)
        self._look(weights, may, seen, at)
        if self.distance is not None:
            found = _over_keys(weights, self.distance(at)[None].to(weights.dtype))[0]
            self.reach.add(found, (seen > 0) & (at.i[:, 0] >= at.extra))

    def _look(self, weights: Tensor, may: Tensor, seen: Tensor, at: Ground) -> None:
        rules = torch.stack([rule(at).expand(weights.shape[1:]) for rule in self.views.values()]).to(weights.dtype)
        inside = _over_keys(may.to(weights.dtype), rules)
        choice = (inside > 0) & (inside < seen)
        self.shares.add(_over_keys(weights, rules), choice)
        chance = inside / seen.clamp(min=1)
        self.chances.add(chance.expand(-1, len(weights), -1), choice)

    def measures(self, head: int) -> Measures:
        """Of one head, counted among those that were added."""
        shares = {name: self.shares.of(place, head) for place, name in enumerate(self.views)}
        views = {name: share for name, share in shares.items() if share is not None}
        places = {name: place for place, name in enumerate(self.views) if name in views}
        chance = {name: self.chances.of(place, head) or 0.0 for name, place in places.items()}
        common = [name for name, place in places.items() if self._often(place, head)]
        entropy = min(max(self.entropy.of(head) or 0.0, 0.0), 1.0)
        role = role_of({name: views[name] for name in common}, chance, entropy)
        reach = None if self.distance is None else self.reach.of(head) or 0.0
        return Measures(entropy, reach, self.largest.of(head) or 0.0, views, chance, role)

    def _often(self, view: int, head: int) -> bool:
        return torch.as_tensor(self.shares.rows)[view, head].item() >= RARE * self.rows


def _entropy(weights: Float[Tensor, "h l M"]) -> Float[Tensor, "h l"]:
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_()
    return -logs.mul_(weights).sum(-1)


def _over_keys(weights: Float[Tensor, "h l M"], rules: Float[Tensor, "v l M"]) -> Float[Tensor, "v h l"]:
    """Σ_m weights_hlm rules_vlm: for each row a product of two small matrices."""
    return torch.bmm(rules.transpose(0, 1), weights.permute(1, 2, 0)).permute(1, 2, 0)
