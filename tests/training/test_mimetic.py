"""Heads that begin by looking at equal words: what a score is, and that places near are alike."""

import torch

from headway.hub.parts import parts_of
from headway.nn.attention import Attention
from headway.presets.bert import bert
from headway.training.tasks.encoder import mimetic_init
from tests.fresh import fresh


def test_a_vector_finds_itself_and_near_places_are_alike() -> None:
    model = fresh(bert(width=95, heads=5, layers=3, hidden=23, vocabulary=301, length=41, words=True), std=0.05)
    before = {name: x.clone() for name, x in parts_of(model).items()}
    mimetic_init(model, 7.0, seed=1)
    x = torch.nn.functional.layer_norm(torch.randn(211, 95, generator=torch.Generator().manual_seed(2)), (95,))
    for layer in [part for part in model.modules() if isinstance(part, Attention)][:-1]:
        parts = parts_of(layer)
        q, k = ((x @ parts[name].T).unflatten(1, (5, 19)).transpose(0, 1) for name in ("query.weight", "key.weight"))
        scores = q @ k.mT / 19**0.5
        own, other = scores.diagonal(dim1=1, dim2=2), scores[:, ~torch.eye(211, dtype=torch.bool)]
        assert abs(float(own.mean()) - 7.0) < 0.7
        assert float(other.mean().abs()) < 0.3 and float(other.std()) < 2.1
    places = model.positions.weight.detach()
    near, far = ((places[:-gap] * places[gap:]).sum(-1).mean() for gap in (1, 20))
    assert float(near) > 2 * float(far)
    changed = {name for name, x in parts_of(model).items() if not torch.equal(x, before[name])}
    assert not [name for name in changed if name.startswith("stack.blocks.2.")]
    assert {name.rsplit(".", 2)[-2] for name in changed} == {"query", "key", "positions", "types"}


def test_the_same_seed_gives_the_same_heads() -> None:
    config = bert(width=22, heads=2, layers=2, hidden=13, vocabulary=17, length=7)
    one, two, other = (fresh(config) for _ in range(3))
    for model, seed in ((one, 3), (two, 3), (other, 5)):
        mimetic_init(model, 6.0, seed=seed)
    same, different = (
        [torch.equal(a, b) for a, b in zip(one.parameters(), x.parameters(), strict=True)] for x in (two, other)
    )
    assert all(same) and not all(different)
