"""Proposals change no token: whatever is proposed, a request gets what it gets alone and without them."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import LanguageConfig
from headway.decoding import DecodingBatch, Generation, Request, generate
from headway.decoding.row import DecodingRow
from headway.models.sessions import CachedSession
from tests.decoding.test_exactness import alone, collected, requests, same
from tests.decoding.tiny import CONFIGS, LENGTH, V, model
from tests.fresh import fresh
from tests.thorough import examples

CACHED = [name for name in CONFIGS if name != "recurrent"]
WHOLE = ["gpt2", "llama", "neox", "opt", "projected"]  # every key is kept


@pytest.fixture(autouse=True, scope="module")
def unchecked() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Oracle:
    """Proposes what is known to come, with mistakes."""

    def __init__(self, right: Sequence[Generation], seed: int) -> None:
        self.right, self.draws = right, random.Random(seed)

    def propose(self, rows: Sequence[DecodingRow]) -> list[list[int]]:
        found = []
        for row in rows:
            coming = [*self.right[row.index].tokens[len(row.tokens) :], *(self.draws.randrange(V) for _ in range(9))]
            coming = [token if self.draws.random() < 0.8 else self.draws.randrange(V) for token in coming]
            found.append(coming[: self.draws.randrange(min(8, row.left_to_make))])
        return found


def with_oracle(name: str, asked: list[Request], right: Sequence[Generation], seed: int, dtype: Any) -> Any:
    batch = DecodingBatch(model(name, dtype), draft="prompt", pad=random.Random(seed).choice(["left", "right"]))
    batch._draft = Oracle(right, seed)
    return collected(batch, asked, [0] * len(asked))


@pytest.mark.parametrize("name", CACHED)
@given(asked=requests, seed=st.integers(0, 99))
@examples(4, 100)
def test_proposals_of_any_quality_change_nothing(name: str, asked: list[Request], seed: int) -> None:
    exact = "int" not in name
    dtype = torch.float64 if exact else torch.float32
    right = alone(name, dtype, asked)
    for found, expected in zip(with_oracle(name, asked, right, seed, dtype), right, strict=True):
        same(found, expected, atol=1e-9 if exact else 1e-4, exact=exact)


@pytest.mark.parametrize("name", ["gpt2", "llama", "window"])
@given(asked=requests, seed=st.integers(0, 99))
@examples(4, 100)
def test_in_float32_up_to_a_reported_tie(name: str, asked: list[Request], seed: int) -> None:
    right = alone(name, torch.float32, asked)
    for found, expected in zip(with_oracle(name, asked, right, seed, torch.float32), right, strict=True):
        same(found, expected, atol=1e-4, exact=False)


@pytest.mark.parametrize("name", WHOLE)
@given(asked=requests, other=st.booleans(), tokens=st.integers(1, 5), when=st.permutations([0, 2, 3]))
@examples(4, 100)
def test_a_draft_model_changes_nothing(
    name: str, asked: list[Request], other: bool, tokens: int, when: list[int]
) -> None:
    """The same model, whose greedy proposals are right, or one with other weights; rows join and leave."""
    draft = fresh(CONFIGS[name], seed=8, dtype=torch.float64, std=0.4) if other else model(name)
    right = alone(name, torch.float64, asked)
    for rows in (None, 2):
        batch = DecodingBatch(model(name), draft=draft, draft_tokens=tokens, rows=rows)
        for found, expected in zip(collected(batch, asked, when), right, strict=True):
            same(found, expected, atol=1e-9, exact=True)


def passes(asked: list[Request], **options: Any) -> int:
    batch = DecodingBatch(model("llama"), **options)
    batch.join(asked)
    count = 0
    while batch.running:
        batch.step()
        count += 1
    return count


def test_a_draft_that_is_right_saves_passes() -> None:
    """40 - 3 tokens: one with the prompt, then 5 at a time, 4 proposed and one more."""
    asked = [Request(prompt=(3, 1, 4), max_new_tokens=36, logit_bias={5: -99.0})]
    assert passes(asked) == 36
    assert passes(asked, draft=model("llama"), draft_tokens=4) == 1 + 7


def test_a_text_that_repeats_itself_is_looked_up() -> None:
    never = fresh(CONFIGS["llama"], seed=1, dtype=torch.float64, std=0.02)  # it says one token for ever
    asked = [Request(prompt=(3, 1, 4), max_new_tokens=30)]
    plain, looked = (generate(never, asked, **options)[0] for options in ({}, {"draft": "prompt"}))
    assert plain.tokens == looked.tokens and len(set(plain.tokens[5:])) == 1
    batch = DecodingBatch(never, draft="prompt")
    batch.join(asked)
    assert any(len(batch.step()) == 9 for _ in range(9))


def test_only_the_first_tokens_of_a_trial_stay() -> None:
    """A session that has tried tokens and kept some is one that has read those alone, whatever the cache."""
    torch.manual_seed(3)
    prompt, tried = torch.randint(0, V, (3, 7)), torch.randint(0, V, (3, 5))
    for name in ("gpt2", "llama", "window", "linear", "gemma"):
        for counts in ((3, 3, 3), (1, 5, 2), (5, 5, 5)):
            session = model(name).session()
            session.read(prompt)
            assert isinstance(session, CachedSession)
            trial = session.trial(tried)
            logits = session.read_all(tried)
            trial.keep_first(torch.tensor(counts))
            assert session.lengths.tolist() == [7 + count for count in counts]
            after = session.read(torch.full((3, 1), 9))
            for row, count in enumerate(counts):
                alone_session = model(name).session()
                whole = torch.cat([prompt[row], tried[row, :count]])
                before = alone_session.read(whole[None])
                torch.testing.assert_close(logits[row, count - 1], before[0])
                torch.testing.assert_close(after[row], alone_session.read(torch.tensor([[9]]))[0])


def other(**changes: Any) -> torch.nn.Module:
    config = CONFIGS["llama"]
    assert isinstance(config, LanguageConfig)
    return fresh(config.replace(**changes), seed=8, dtype=torch.float64, std=0.4)


def test_a_draft_model_with_fewer_positions_proposes_as_far_as_it_reads() -> None:
    asked = [Request(prompt=(3, 1, 4), max_new_tokens=30, logit_bias={5: -99.0})]
    short = other(length=17)
    assert LENGTH > 17
    assert generate(model("llama"), asked, draft=short)[0].tokens == generate(model("llama"), asked)[0].tokens


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("llama", {"draft_tokens": 3}, "choose one, such as draft="),
        ("llama", {"draft": "prompt", "draft_tokens": 0}, "at least one token, not draft_tokens=0"),
        ("llama", {"draft": "prompt", "cache": False}, "caches can take tokens back"),
        ("recurrent", {"draft": "prompt"}, "caches can take tokens back"),
        ("t5", {"draft": model("llama")}, 'use draft="prompt"'),
        ("llama", {"draft": model("t5")}, 'a draft is "prompt" or a language model, not a seq2seq'),
        ("llama", {"draft": other(vocabulary=41)}, "a vocabulary of 41, and the model one of 37"),
        ("llama", {"draft": model("window")}, "attends to the whole text in every layer"),
        ("llama", {"draft": "nowhere/at/all"}, "nowhere/at/all"),
    ],
)
def test_mistakes_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        DecodingBatch(model(name), **options)
