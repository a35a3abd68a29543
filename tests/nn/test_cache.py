"""Caches: reading token by token, in chunks, ragged, reordered and joined gives what one full pass gives."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.config import (
    Additive,
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Linear,
    Local,
    Rotary,
    StackConfig,
)
from headway.nn import (
    Attention,
    BlockCache,
    Context,
    CrossCache,
    KVCache,
    Stack,
    TotalCache,
    WindowCache,
    new_cache,
)
from headway.ops.mask import causal, padding
from tests.thorough import THOROUGH, examples

D, LENGTH = 12, 17
KINDS = {
    "softmax": dict(kv_heads=3),
    "rotary": dict(kv_heads=2, rotary=Rotary(), head_width=4, value_width=5),
    "window": dict(mechanism=Local(window=4), kv_heads=2, rotary=Rotary(), head_width=4),
    "dilated": dict(mechanism=Local(window=3, dilation=2)),
    "selected": dict(mechanism=Local(window=3, selected=(0, 7))),
    "linear": dict(mechanism=Linear(chunk=4), kv_heads=3, rotary=Rotary(), head_width=4),
    "additive": dict(mechanism=Additive(), rotary=Rotary(), head_width=4),
    "capped": dict(softcap=3.0),
}


def stack(kind: str, *, order: str = "pre", layers: int = 2) -> Stack:
    attention = AttentionConfig(width=D, heads=6, causal=True, bias=True, **KINDS[kind])
    hidden = FeedForwardConfig(hidden=19, gated=True, activation="silu")
    block = BlockConfig(attention=attention, feedforward=hidden, norm="rms", order=order)
    return Stack(StackConfig(block=block, layers=layers, final_norm=True)).double()


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def close(found: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(found, right, atol=1e-11, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@examples(6, 300)  # each walks a layer through all of its caches
@given(cuts=st.lists(st.integers(1, LENGTH - 1), max_size=5, unique=True), seed=st.integers(0, 99))
def test_any_split_equals_the_full_pass(kind: str, cuts: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    model, x = stack(kind), rows(2, LENGTH, D)
    edges = [0, *sorted(cuts), LENGTH]
    with torch.no_grad():
        caches = model.new_caches()
        parts = [model(x[:, a:b], None, caches) for a, b in pairwise(edges)]
        close(torch.cat(parts, 1), model(x))


# The order of a block knows nothing of what its attention keeps; `make test-thorough` tries all of both.
ORDERS = [
    (order, kind)
    for order in ("pre", "post", "none")
    for kind in KINDS
    if THOROUGH or order == "pre" or kind in ("softmax", "linear")
]


@pytest.mark.parametrize(("order", "kind"), ORDERS)
def test_token_by_token_equals_the_full_pass(order: str, kind: str) -> None:
    model, x = stack(kind, order=order), rows(2, LENGTH, D)
    with torch.no_grad():
        caches = model.new_caches()
        close(torch.cat([model(x[:, t : t + 1], None, caches) for t in range(LENGTH)], 1), model(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_ragged_prompts_go_on_as_if_alone(kind: str, side: str) -> None:
    """Prompts of 4, 9 and 1 tokens, NaN in the padding; then six steps together."""
    model, x, lengths = stack(kind), rows(3, LENGTH, D), [4, 9, 1]
    prompt = torch.full((3, 9, D), float("nan"), dtype=x.dtype)
    places = [slice(9 - n, 9) if side == "left" else slice(0, n) for n in lengths]
    for row, (n, place) in enumerate(zip(lengths, places, strict=True)):
        prompt[row, place] = x[row, :n]
    with torch.no_grad():
        full, caches = model(x), model.new_caches()
        out = model(prompt, Context(mask=padding(lengths=lengths, total=9, side=side)), caches)
        for row, (n, place) in enumerate(zip(lengths, places, strict=True)):
            close(out[row, place], full[row, :n])
        for step in range(6):
            out = model(torch.stack([x[row, n + step] for row, n in enumerate(lengths)])[:, None], None, caches)
            close(out[:, 0], torch.stack([full[row, n + step] for row, n in enumerate(lengths)]))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_reordered_dropped_repeated_and_joined(kind: str) -> None:
    model, x = stack(kind), rows(4, LENGTH, D)
    with torch.no_grad():
        full = model(x)
        first, second = model.new_caches(), model.new_caches()
        model(x[:3, :7], None, first)
        model(x[3:, :11], None, second)
        for block in first:
            block.own.select(torch.tensor([2, 0, 0]))
        for ours, theirs in zip(first, second, strict=True):
            ours.own.join(theirs.own)
        who, at = [2, 0, 0, 3], [7, 7, 7, 11]
        for step in range(5):
            new = torch.stack([x[row, place + step] for row, place in zip(who, at, strict=True)])[:, None]
            found = model(new, None, first)[:, 0]
            close(found, torch.stack([full[row, place + step] for row, place in zip(who, at, strict=True)]))


def test_kinds_of_state_and_what_they_hold() -> None:
    make = lambda kind: new_cache(AttentionConfig(width=D, heads=6, causal=True, **KINDS[kind]))  # noqa: E731
    assert isinstance(make("softmax"), KVCache) and isinstance(make("selected"), KVCache)
    assert isinstance(make("window"), WindowCache) and make("window").window == 4
    assert isinstance(make("dilated"), WindowCache) and make("dilated").window == 5
    assert isinstance(make("linear"), TotalCache)
    with pytest.raises(ValueError, match="only causal attention"):
        new_cache(AttentionConfig(width=D))


@pytest.mark.parametrize("kind", ["window", "linear"])
def test_rolling_and_recurrent_do_not_grow(kind: str) -> None:
    model, sizes = stack(kind), []
    with torch.no_grad():
        caches = model.new_caches()
        for _ in range(19):
            model(rows(2, 1, D), None, caches)
            sizes.append(caches[0].own.nbytes)
    assert sizes[-1] == sizes[10]


def test_a_growing_cache_seldom_moves_and_computes_the_new_row_only() -> None:
    """M4: one more token costs its own q, k, v and one row of scores; what is held stays where it is."""
    attention = Attention(AttentionConfig(width=D, heads=6, causal=True)).double()
    cache, seen = KVCache(capacity=64), []
    attention.core.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        attention(rows(1, 30, D), cache=cache)
        place = cache.k.data_ptr()
        for step in range(20):
            attention(rows(1, 1, D), cache=cache)
            assert cache.k.data_ptr() == place
            assert seen[-1].q.shape[2] == 1 and seen[-1].k.shape[2] == 31 + step


def test_nan_written_as_padding_never_comes_back() -> None:
    attention = Attention(AttentionConfig(width=D, heads=6, causal=True)).double()
    cache = KVCache()
    with torch.no_grad():
        attention(
            torch.full((1, 3, D), float("nan"), dtype=torch.float64), mask=padding(lengths=[0], total=3), cache=cache
        )
        assert bool(attention(rows(1, 2, D), cache=cache).isfinite().all())
        assert cache.lengths.tolist() == [2]


def test_gradients_and_foreign_rows_are_refused() -> None:
    attention = Attention(AttentionConfig(width=D, heads=6, causal=True)).double()
    with pytest.raises(ValueError, match=r"torch.no_grad\(\)"):
        attention(rows(1, 2, D), cache=KVCache())
    with torch.no_grad():
        cache = KVCache()
        attention(rows(2, 2, D), cache=cache)
        with pytest.raises(ValueError, match=r"holds 2 rows in torch[.]float64, and the call has 3"):
            attention(rows(3, 1, D), cache=cache)
        with pytest.raises(ValueError, match="KVCache cannot take in rows of a WindowCache"):
            cache.join(WindowCache(3))
        with pytest.raises(ValueError, match="no rows to join"):
            cache.join(KVCache())


class Pair(torch.nn.Module):
    """A stack that reads a source, and one that attends to what that made of it."""

    def __init__(self, encoder: StackConfig, decoder: StackConfig) -> None:
        super().__init__()
        self.encoder, self.decoder = Stack(encoder), Stack(decoder)

    def forward(self, source: Tensor, target: Tensor, source_mask: Any = None, target_mask: Any = None) -> Tensor:
        memory = self.encoder(source, Context(source_mask))
        return self.decoder(target, Context(target_mask, source=memory, source_mask=source_mask))


def pair() -> Pair:
    own = AttentionConfig(width=D, heads=6, causal=True, rotary=Rotary(), head_width=4)
    cross = AttentionConfig(width=D, heads=3, source_width=10)
    hidden = FeedForwardConfig(hidden=19)
    encoder = BlockConfig(attention=AttentionConfig(width=10, heads=2), feedforward=hidden, order="post")
    decoder = BlockConfig(attention=own, cross=cross, feedforward=hidden, order="post")
    return Pair(StackConfig(block=encoder, layers=2), StackConfig(block=decoder, layers=3)).double()


def test_encoder_decoder_token_by_token_projects_the_source_once() -> None:
    model, source, target = pair(), rows(2, 7, 10), rows(2, 5, D)
    mask = padding(lengths=[7, 4], total=7)
    with torch.no_grad():
        full = model(source, target, source_mask=mask)
        memory, caches = model.encoder(source, Context(mask)), model.decoder.new_caches()
        calls = []
        model.decoder.blocks[0].cross.key_value.register_forward_hook(lambda *_: calls.append(1))
        context = Context(source=memory, source_mask=mask)
        found = [model.decoder(target[:, t : t + 1], context, caches) for t in range(5)]
        close(torch.cat(found, 1), full)
        assert len(calls) == 1 and isinstance(caches[0].cross, CrossCache)
        assert caches[0].cross.lengths.tolist() == [7, 4]


def test_padding_of_source_and_target_changes_nothing() -> None:
    model, source, target = pair(), rows(1, 4, 10), rows(1, 5, D)
    alone = model(source, target)
    wide = torch.cat([source, torch.full((1, 3, 10), float("nan"), dtype=source.dtype)], 1)
    long = torch.cat([torch.full((1, 2, D), float("inf"), dtype=target.dtype), target], 1)
    beside = model(
        wide, long, source_mask=padding(lengths=[4], total=7), target_mask=padding(lengths=[5], total=7, side="left")
    )
    close(beside[:, 2:], alone)
    beside[:, 2:].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())


def test_states_belong_to_blocks() -> None:
    model = stack("softmax")
    with torch.no_grad(), pytest.raises(ValueError, match="2 blocks have 2 caches, not 1"):
        model(rows(1, 2, D), Context(mask=causal()), [BlockCache()])


@pytest.mark.parametrize("ahead", [(0, 1), (1, 0), (2, 2), (3, 1)])
@pytest.mark.parametrize("kind", ["window", "dilated"])
def test_windows_that_turned_by_different_amounts_are_joined(kind: str, ahead: tuple[int, int]) -> None:
    model, x = stack(kind), rows(2, LENGTH, D)
    with torch.no_grad():
        full, caches = model(x), [model.new_caches(), model.new_caches()]
        for row, (steps, cache) in enumerate(zip(ahead, caches, strict=True)):
            model(x[row : row + 1, :6], None, cache)
            for step in range(steps):
                model(x[row : row + 1, 6 + step : 7 + step], None, cache)
        for ours, theirs in zip(*caches, strict=True):
            ours.own.join(theirs.own)
        for step in range(4):
            at = [6 + steps + step for steps in ahead]
            found = model(torch.stack([x[0, at[0]], x[1, at[1]]])[:, None], None, caches[0])[:, 0]
            close(found, torch.stack([full[0, at[0]], full[1, at[1]]]))


@pytest.mark.parametrize("kind", ["softmax", "window", "linear"])
def test_positions_go_on_from_the_last_real_token(kind: str) -> None:
    """Holes in the padding, and positions that do not start at 0: the next token stands after the last real one."""
    own = {name: value for name, value in KINDS[kind].items() if name == "mechanism"}
    config = AttentionConfig(width=D, heads=6, causal=True, rotary=Rotary(), head_width=4, **own)
    attention = Attention(config).double()
    x, keep = rows(1, 7, D), torch.tensor([[True, False, True, True, False, True]])
    with torch.no_grad():
        cache = new_cache(attention.config)
        attention(x[:, :6], mask=padding(keep=keep), cache=cache)
        found = attention(x[:, 6:], cache=cache)
        whole = torch.cat([keep, torch.tensor([[True]])], 1)
        close(found[:, 0], attention(x, mask=padding(keep=whole))[:, 6])
        shifted = new_cache(attention.config)
        attention(x[:, :4], positions=torch.arange(4) + 7, cache=shifted)
        assert shifted.following(1).tolist() == [[11]]


def test_a_refused_call_leaves_the_cache_as_it_was() -> None:
    attention, x = Attention(AttentionConfig(width=D, heads=6, causal=True)).double(), rows(2, 6, D)
    with torch.no_grad():
        cache, full = KVCache(), attention(x)
        attention(x[:, :3], cache=cache)
        for wrong in (dict(mask=torch.ones(2, 2, dtype=torch.bool)), dict(bias=torch.zeros(1, 1, 2, 2).double())):
            with pytest.raises(ValueError, match="relate positions"):
                attention(x[:, 3:5], cache=cache, **wrong)
        assert cache.lengths.tolist() == [3, 3]
        close(attention(x[:, 3:], cache=cache), full[:, 3:])


def test_a_state_must_suit_its_layer() -> None:
    make = lambda **c: Attention(AttentionConfig(width=D, heads=6, **{"causal": True, **c})).double()  # noqa: E731
    x, total = rows(2, 3, D), new_cache(AttentionConfig(width=D, causal=True, mechanism=Linear()))
    local = make(mechanism=Local(window=5))
    wrong = [
        (local, WindowCache(3), "too short"),
        (make(), WindowCache(3), "too short"),
        (make(causal=False), KVCache(), "only causal attention"),
        (make(), CrossCache(), "CrossCache holds a source"),
        (make(), total, "does not serve softmax attention"),
        (make(mechanism=Linear()), KVCache(), "read with a running total"),
        (make(mechanism=Linear(), causal=False), total, "only causal attention"),
    ]
    with torch.no_grad():
        for attention, cache, sentence in wrong:
            with pytest.raises(ValueError, match=sentence):
                attention(x, cache=cache)
        with pytest.raises(ValueError, match=r"linear attention has no score to change: scale=0\.5"):
            make(mechanism=Linear(), scale=0.5)
        for rows_asked in (torch.tensor([2]), torch.tensor([-1])):
            cache = KVCache()
            make()(x, cache=cache)
            with pytest.raises(ValueError, match="select takes"):
                cache.select(rows_asked)


def test_rotary_across_two_texts_asks_for_positions() -> None:
    attention, x, source = Attention(AttentionConfig(width=D, rotary=Rotary())).double(), rows(2, 3, D), rows(2, 5, D)
    with pytest.raises(ValueError, match="pass positions and source_positions"):
        attention(x, source)
    assert attention(x, source, positions=torch.arange(3), source_positions=torch.arange(5)).shape == (2, 3, D)
    with pytest.raises(ValueError, match="rotary cross-attention"):
        BlockConfig(attention=AttentionConfig(width=D), cross=AttentionConfig(width=D, rotary=Rotary()))


def test_a_source_stays_where_it_is_while_its_beams_change_places() -> None:
    """Rows that hold the same source are alike, so that nothing is copied; any other choice of rows is."""
    cache = CrossCache()
    k, v = rows(3, 2, 5, 4), rows(3, 2, 5, 3)
    cache.append(k, v)
    cache.select(torch.tensor([0, 0, 1, 1, 1]))
    held = cache.k
    cache.select(torch.tensor([1, 1, 4, 2, 3]))
    assert cache.k is held
    other = CrossCache()
    other.append(rows(2, 2, 5, 4), rows(2, 2, 5, 3))
    other.select(torch.tensor([1, 1]))
    assert other.k is not None
    more = other.k[:, :, :5].clone()
    cache.select(torch.tensor([2, 3]))  # both of the second source
    cache.join(other)
    cache.select(torch.tensor([0, 2, 1, 3]))
    assert cache.k is not None
    assert torch.equal(cache.k[:, :, :5], torch.stack([k[1], more[0], k[1], more[1]]))
    cache.select(torch.tensor([2, 1, 0, 3]))
    assert torch.equal(cache.contents().v[0], v[1])
    with pytest.raises(ValueError, match="from 0 to 3"):
        cache.select(torch.tensor([4]))
    cache.select(torch.tensor([], dtype=torch.long))
    assert not cache.filled
