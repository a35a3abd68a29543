"""Measures against NumPy, however the attention was computed; nothing about the model changes."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headway.audit.health import Head, Health, diagnose, measure
from headway.audit.health.depth import blocks
from tests.audit.health.patients import HEADS, WAYS, Plain, attention_of, decoder, gpt2, tokens, vectors


def reference(q: np.ndarray, k: np.ndarray, hidden: np.ndarray, scale: float) -> dict[str, float]:
    """The measures of one head, by loops: q B L K, k B M K, hidden B L M."""
    kept: dict[str, list[float]] = {name: [] for name in ("variance", "spread", "entropy", "saturated", "jacobian")}
    squares, counts, columns = [], [], [set[int]() for _ in k]
    for item, row in np.ndindex(q.shape[:2]):
        keys = np.flatnonzero(~hidden[item, row])
        if len(keys) < 2:
            continue
        raw = k[item, keys] @ q[item, row]
        a = np.exp(raw * scale - (raw * scale).max())
        a /= a.sum()
        kept["variance"].append(raw.var(ddof=1))
        kept["spread"].append((raw * scale).var(ddof=1))
        kept["entropy"].append(-(a * np.log(a)).sum() / math.log(len(keys)))
        kept["saturated"].append(float(a.max() > 0.99))
        kept["jacobian"].append(np.linalg.norm(np.diag(a) - np.outer(a, a)))
        squares.append((q[item, row] ** 2).mean())
        counts.append(len(keys))
        columns[item] |= set(keys.tolist())
    found = {name: float(np.mean(values)) for name, values in kept.items()}
    spread = np.mean([k[item, sorted(own)].var(axis=0, ddof=1).mean() for item, own in enumerate(columns)])
    uniform = [math.sqrt(n - 1) / n for n in counts]
    return found | {
        "spread": math.sqrt(found["spread"]),
        "keys": float(np.mean(counts)),
        "q_rms": math.sqrt(np.mean(squares)),
        "k_rms": math.sqrt(spread),
        "predicted": q.shape[-1] * float(np.mean(squares)) * float(spread),
        "jacobian_uniform": float(np.mean(uniform)),
    }


def hidden_pairs(length: int) -> Tensor:
    """Causal, and the second text begins with four tokens of padding: rows that see one key, and none."""
    above = torch.ones(length, length, dtype=torch.bool).triu(1)
    padding = torch.arange(length) < torch.tensor([[0], [4]])
    return (above | padding[:, None])[:, None]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_it_gives_what_numpy_gives(way: str, masked: bool) -> None:
    model, x = Plain(way).double(), vectors().double()
    model.q.weight.data *= 2.5  # so that some rows are saturated
    hidden = hidden_pairs(x.shape[1]) if masked else torch.zeros(2, 1, x.shape[1], x.shape[1], dtype=torch.bool)
    health = diagnose(model, lambda: model(x, hidden if masked else None).nan_to_num())
    assert [one.head for one in health.heads] == list(range(HEADS))
    q, k = (part(x).detach().unflatten(-1, (HEADS, -1)).numpy() for part in (model.q, model.k))
    for one in health.heads:
        wanted = reference(q[:, :, one.head], k[:, :, one.head], hidden[:, 0].numpy(), 11**-0.5)
        assert {name: getattr(one, name) for name in wanted} == pytest.approx(wanted, rel=1e-9), way
        assert one.scale == pytest.approx(11**-0.5) and one.width == 11
        if not (masked and way == "written"):  # there a row that sees nothing is NaN
            assert one.variation is not None and one.heard is not None
    assert any(one.saturated for one in health.heads)


def test_a_mask_of_three_axes_is_one_for_each_head() -> None:
    model, x = Plain().double(), vectors().double()
    hidden = torch.rand(HEADS, 23, 23, generator=torch.Generator().manual_seed(1)) < 0.3
    health = diagnose(model, lambda: model(x, hidden))
    q, k = (part(x).detach().unflatten(-1, (HEADS, -1)).numpy() for part in (model.q, model.k))
    for one in health.heads:
        both = np.broadcast_to(hidden[one.head].numpy(), (2, 23, 23))
        wanted = reference(q[:, :, one.head], k[:, :, one.head], both, 11**-0.5)
        assert {name: getattr(one, name) for name in wanted} == pytest.approx(wanted, rel=1e-9)


class Grouped(nn.Module):
    """Two heads of keys for four of queries, shared by the kernel or repeated by hand."""

    def __init__(self, repeat: bool) -> None:
        super().__init__()
        self.repeat = repeat

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.repeat:
            k, v = (one.repeat_interleave(2, dim=1) for one in (k, v))
        kernel = nn.functional.scaled_dot_product_attention
        return kernel(q, k, v, is_causal=True, enable_gqa=not self.repeat)


def test_shared_keys_and_a_causal_kernel() -> None:
    q, k, v = torch.randn(2, 4, 13, 11, requires_grad=True), torch.randn(2, 2, 13, 11), torch.randn(2, 2, 13, 5)
    one, other = (diagnose(model, lambda m=model: m(q, k, v)) for model in (Grouped(True), Grouped(False)))
    agree(one, other, 1e-5)
    assert one.heads[0].keys == 7.5


def test_ours_is_what_numpy_gives() -> None:
    model, t = decoder(std=0.4).double(), tokens()
    held: dict[str, Any] = {}
    core = attention_of(model, 1).core
    handle = core.register_forward_pre_hook(lambda _, args: held.update(call=args[0]))
    health = diagnose(model, lambda: model(t), tokens=t)
    handle.remove()
    q, k = held["call"].q.detach().numpy(), held["call"].k.detach().numpy()
    hidden = np.broadcast_to(np.triu(np.ones((29, 29), dtype=bool), 1), (2, 29, 29))
    mine = [one for one in health.heads if one.module == "stack.blocks.1.attention"]
    assert len(mine) == HEADS
    for one in mine:
        wanted = reference(q[:, one.head], k[:, one.head], hidden, 11**-0.5)
        assert {name: getattr(one, name) for name in wanted} == pytest.approx(wanted, rel=1e-9)


def agree(one: Health, other: Health, rel: float) -> None:
    assert len(one.heads) == len(other.heads) > 0
    for first, second in zip(one.heads, other.heads, strict=True):
        mine, its = asdict(first), asdict(second)
        floats = [name for name, value in mine.items() if isinstance(value, float)]
        assert {name: mine.pop(name) for name in floats} == pytest.approx({name: its.pop(name) for name in floats}, rel)
        assert mine == its


def test_eager_and_fused_gpt2_are_the_same() -> None:
    t = tokens()
    eager, fused = (diagnose(m, lambda m=m: m(t).logits, tokens=t) for m in (gpt2("eager"), gpt2("sdpa")))
    agree(eager, fused, 1e-4)
    assert eager.heads[5].module == "transformer.h.1.attn"
    assert [one.module for one in eager.depth[1:]] == ["transformer.h.0", "transformer.h.1", "transformer.h.2"]


def test_torch_attention_with_and_without_weights() -> None:
    model, x = nn.MultiheadAttention(44, HEADS, batch_first=True), vectors()
    padded = torch.arange(23) > torch.tensor([[22], [11]])
    one, other = (
        diagnose(model, lambda need=need: model(x, x, x, key_padding_mask=padded, need_weights=need)[0])
        for need in (True, False)
    )
    agree(one, other, 1e-4)
    assert one.heads[0].keys == pytest.approx((23 + 12) / 2)


@pytest.mark.parametrize("ours", [True, False])
def test_nothing_changes(ours: bool) -> None:
    model, t = decoder() if ours else gpt2("eager"), tokens()

    def call() -> Tensor:
        return model(t) if ours else model(t).logits

    before, weights = call().detach(), {name: x.clone() for name, x in model.state_dict().items()}
    seen: list[Tensor] = []
    diagnose(model, lambda: seen.append(call()) or seen[0], tokens=t)
    assert torch.equal(seen[0], before) and torch.equal(call(), before)
    assert all(torch.equal(x, weights[name]) for name, x in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_large_attention_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Plain(), vectors(length=97)
    whole = diagnose(model, lambda: model(x))
    monkeypatch.setattr(measure, "SCORES", 2 * HEADS * 97 * 97 // 3)
    part = diagnose(model, lambda: model(x))
    assert any("even distances" in note for note in part.notes) and not any("even" in note for note in whole.notes)
    assert part.heads[0].variance == pytest.approx(whole.heads[0].variance, rel=0.2)
    assert part.heads[0].variance != whole.heads[0].variance


def test_gradients_at_heads_and_blocks_are_those_of_the_loss() -> None:
    model, t = decoder().double(), tokens()
    health = diagnose(model, lambda: model(t), tokens=t)
    outs: list[Tensor] = []
    watch_calls = (attention_of(model, 1).core, model.stack.blocks[1])
    handles = [part.register_forward_hook(lambda _, args, out: outs.append(out)) for part in watch_calls]
    logits = model(t)
    for handle in handles:
        handle.remove()
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), t[:, 1:].flatten())
    of_heads, gradient = torch.autograd.grad(loss, outs)
    norms = of_heads.square().sum((0, 2, 3)).sqrt()
    heard = [one.heard for one in health.heads if one.module == "stack.blocks.1.attention"]
    assert heard == pytest.approx((norms / norms.max()).tolist(), rel=1e-9)
    assert health.depth[2].module == "stack.blocks.1"
    assert health.depth[2].gradient == pytest.approx(gradient.norm().item(), rel=1e-9)
    assert health.depth[2].activation == pytest.approx(outs[1].square().mean().sqrt().item(), rel=1e-9)


def test_what_cannot_be_seen_is_said() -> None:
    linear = nn.Linear(3, 5)
    assert any("no attention was seen" in one for one in diagnose(linear, lambda: linear(torch.ones(2, 3))).notes)
    for part in linear.parameters():
        part.requires_grad_(False)
    assert any("no gradients" in one for one in diagnose(linear, lambda: linear(torch.ones(2, 3))).notes)
    with pytest.raises(ValueError, match="tuple"):
        diagnose(linear, lambda: (linear(torch.ones(2, 3)),))  # type: ignore[arg-type, return-value]


class Blind(nn.Module):
    """Scores that came from nowhere: a bias alone decides."""

    def __init__(self, axes: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(*(2, 3, 5, 7)[-axes:]))

    def forward(self) -> Tensor:
        return self.table.softmax(-1)


def test_scores_without_queries_are_measured_as_far_as_they_go() -> None:
    model = Blind(4)
    one: Head = diagnose(model, model).heads[0]
    assert one.variance is None and one.scale is None and one.saturated == 0
    assert one.spread == pytest.approx(model.table[:, 0].detach().var(-1).mean().sqrt().item(), rel=1e-5)
    words = Blind(3)  # positions and words: no attention
    assert diagnose(words, words).heads == []


def test_blocks_are_what_is_called_and_stands_several_times() -> None:
    def block() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    lists = nn.ModuleList(nn.ModuleList([block(), block(), nn.LayerNorm(3)]) for _ in range(2))
    assert [name for name, _ in blocks(lists)] == ["0.0", "0.1", "1.0", "1.1"]  # a list itself is never called
    assert blocks(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))) == []
