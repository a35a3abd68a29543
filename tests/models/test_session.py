"""Sessions: what a step costs is counted, operation by operation; rows leave, repeat and join."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageConfig,
    Linear,
    Local,
    Rotary,
    StackConfig,
)
from headway.models.sessions import last_real
from tests.fresh import fresh

VOCABULARY, LENGTH = 31, 97


def model(positions: str = "learned", **attention: Any):
    config = AttentionConfig(width=22, heads=2, causal=True, **attention)
    block = BlockConfig(attention=config, feedforward=FeedForwardConfig(hidden=17))
    stack = StackConfig(block=block, layers=3, final_norm=True)
    made = LanguageConfig(vocabulary=VOCABULARY, length=LENGTH, stack=stack, positions=positions)
    return fresh(made, dtype=torch.float64, std=0.3)


KINDS = {
    "learned": lambda: model(),
    "rotary": lambda: model("none", rotary=Rotary(width=6), kv_heads=1),
    "window": lambda: model("none", rotary=Rotary(width=6), mechanism=Local(window=5)),
    "linear": lambda: model("sinusoidal", mechanism=Linear()),
}


class Ledger(TorchDispatchMode):
    """Every operation with the number of elements that it makes or writes."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, int]] = []
        self.attended: list[tuple[torch.Size, torch.Size]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if "scaled_dot_product" in str(function):
            self.attended.append((args[0].shape, args[1].shape))
        elif not function.is_view and "empty" not in str(function):
            self.made.append((str(function), sum(x.numel() for x in tree_leaves(found) if isinstance(x, torch.Tensor))))
        return found


def ledger_of_a_step(session) -> Ledger:
    token = torch.ones(2, 1, dtype=torch.long)
    with Ledger() as ledger:
        session.read(token)
    return ledger


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_a_step_costs_one_new_row_however_long_the_text(kind: str) -> None:
    """M4: the new token's q, k, v, one row of scores over all keys, one weighted sum; nothing held is touched."""
    made = KINDS[kind]()
    ledgers = {}
    for length in (7, 83):
        session = made.session(capacity=LENGTH)
        session.read(torch.randint(0, VOCABULARY, (2, length)))
        ledgers[length] = ledger_of_a_step(session)
        heads = made.config.stack.block.attention
        query, key = torch.Size([2, 2, 1, 11]), torch.Size([2, heads.kv_heads, length + 1, 11])
        assert ledgers[length].attended == [(query, key)] * 3
    assert ledgers[7].made == ledgers[83].made, "outside of the attention itself nothing grows with the length"
    largest = max(count for _, count in ledgers[83].made)
    assert largest <= 2 * max(VOCABULARY, 3 * 22), "no operation touches what the cache holds"


@pytest.mark.parametrize("kind", ["learned", "rotary"])
def test_the_cache_grows_without_being_copied(kind: str) -> None:
    session = KINDS[kind]().session(capacity=LENGTH)
    session.read(torch.randint(0, VOCABULARY, (2, 3)))
    places = [cache.own.k.data_ptr() for cache in session.caches]
    for tokens in (*[1] * 11, LENGTH - 27, *[1] * 13):
        session.read(torch.ones(2, tokens, dtype=torch.long))
    assert [cache.own.k.data_ptr() for cache in session.caches] == places
    assert session.room == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capacity", [None, 1, 40])
@torch.no_grad()
def test_any_split_and_any_company_give_the_same_logits(kind: str, capacity: int | None) -> None:
    made = KINDS[kind]()
    texts = [torch.randint(0, VOCABULARY, (length,)) for length in (13, 29, 17)]
    expected = [made(text[None])[0] for text in texts]
    session, other = made.session(capacity=capacity), made.session(capacity=capacity)
    tokens = torch.stack([torch.nn.functional.pad(texts[0][:5], (2, 0)), texts[1][:7]])
    keep = torch.tensor([[False] * 2 + [True] * 5, [True] * 7])
    found = session.read(tokens, keep)
    assert torch.allclose(found, torch.stack([expected[0][4], expected[1][6]]), atol=1e-10, rtol=0)
    assert session.lengths.tolist() == [5, 7]
    other.read(texts[2][None, :11])
    session.join(other)
    for step in range(6):
        found = session.read(torch.stack([texts[0][5 + step], texts[1][7 + step], texts[2][11 + step]])[:, None])
        wanted = torch.stack([expected[0][5 + step], expected[1][7 + step], expected[2][11 + step]])
        assert torch.allclose(found, wanted, atol=1e-10, rtol=0)
    session.select(torch.tensor([1, 1, 0]))
    assert session.lengths.tolist() == [13, 13, 11] and session.rows == 3
    found = session.read(torch.stack([texts[1][13:15], texts[1][13:15], texts[0][11:13]]))
    wanted = torch.stack([expected[1][14], expected[1][14], expected[0][12]])
    assert torch.allclose(found, wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_reading_again_agrees_with_the_cache(kind: str) -> None:
    made = KINDS[kind]()
    cached, again = made.session(), made.session(cache=False)
    tokens, keep = torch.randint(0, VOCABULARY, (2, 7)), torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    assert torch.allclose(cached.read(tokens, keep), again.read(tokens, keep), atol=1e-10, rtol=0)
    for _ in range(3):
        more = torch.randint(0, VOCABULARY, (2, 1))
        assert torch.allclose(cached.read(more), again.read(more), atol=1e-10, rtol=0)
    assert cached.lengths.tolist() == again.lengths.tolist() == [10, 7]


def test_what_does_not_fit_is_refused() -> None:
    session = model().session()
    with pytest.raises(ValueError, match="past the table of 97 learned positions"):
        session.read(torch.ones(1, 98, dtype=torch.long))
    with pytest.raises(ValueError, match="token 31 is outside of the vocabulary of 31"):
        model().session().read(torch.tensor([[31]]))
    with pytest.raises(ValueError, match="nothing but padding"):
        last_real(torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.bool))
    assert KINDS["window"]().session().room is None
    assert KINDS["rotary"]().session().room == LENGTH


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_of_no_rows_takes_what_comes(kind: str) -> None:
    made = KINDS[kind]()
    session, other = made.session(), made.session()
    session.read(torch.ones(2, 3, dtype=torch.long))
    expected = other.read(torch.ones(1, 3, dtype=torch.long))
    session.select(torch.tensor([], dtype=torch.long))
    assert session.rows == 0 and session.room in (None, LENGTH)
    assert torch.allclose(session.read(torch.ones(1, 3, dtype=torch.long)), expected, atol=1e-12, rtol=0)
    session.select(torch.tensor([], dtype=torch.long))
    session.join(other)
    assert session.lengths.tolist() == [3]


def test_what_a_cache_cannot_hold_is_refused_in_a_step_too() -> None:
    made = model()
    caches = made.stack.new_caches()
    with pytest.raises(ValueError, match="a cache keeps numbers, not gradients"):
        made.hidden_states(torch.ones(1, 1, dtype=torch.long), caches=caches)
    session = made.session()
    session.read(torch.ones(1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="holds 1 rows"):
        session.read(torch.ones(2, 1, dtype=torch.long))
    with pytest.raises(ValueError, match="at least one token"):
        session.read(torch.ones(1, 0, dtype=torch.long))
    assert not made.session(cache=False).read(torch.ones(1, 2, dtype=torch.long)).requires_grad
