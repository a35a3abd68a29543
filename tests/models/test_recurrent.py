"""Bahdanau's encoder-decoder: its equations word by word in NumPy, padding, decoding, and that it learns."""

import json

import jaxtyping
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from headway.config import Special
from headway.config.text import RecurrentConfig
from headway.models import count
from headway.models.recurrent import Cell, Recurrent
from headway.models.sessions import Session
from tests.fresh import fresh
from tests.thorough import examples

SOURCES, VOCABULARY, WIDTH, HIDDEN, KEY, OUTPUT = 11, 13, 3, 5, 7, 2
B, L, M = 2, 4, 6
NAN = float("nan")


def model(**changes: object) -> Recurrent:
    sizes = dict(source_vocabulary=SOURCES, vocabulary=VOCABULARY, width=WIDTH, hidden=HIDDEN)
    made = Recurrent(RecurrentConfig(**{**sizes, "attention_width": KEY, "output_width": OUTPUT, **changes})).double()
    with torch.no_grad():
        for parameter in made.parameters():  # far enough from 0 to leave the linear part of σ and tanh
            parameter.normal_()
    return made


def words(vocabulary: int, *shape: int) -> Tensor:
    return torch.randint(vocabulary, shape)


def by_hand(p: dict[str, np.ndarray], source: list[int], target: list[int]) -> np.ndarray:
    """One source and one target, word by word, from the equations alone; complex numbers pass."""
    n = p["encoder.ahead.candidate.weight"].shape[0]

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def step(name: str, e: np.ndarray, s: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
        w_z, w_r, w = np.split(p[f"{name}.input.weight"], 3)
        u_z, u_r = np.split(p[f"{name}.gates.weight"], 2)
        u = p[f"{name}.candidate.weight"]
        c_z, c_r, c_s = np.split(p[f"{name}.context.weight"] @ c, 3) if c is not None else (0, 0, 0)
        z = sigmoid(w_z @ e + u_z @ s + c_z)
        r = sigmoid(w_r @ e + u_r @ s + c_r)
        proposed = np.tanh(w @ e + u @ (r * s) + c_s)
        return (1 - z) * s + z * proposed

    read = [p["encoder.tokens.weight"][word] for word in source]
    ahead, back = [np.zeros(n)], [np.zeros(n)]
    for e in read:
        ahead.append(step("encoder.ahead", e, ahead[-1]))
    annotations, first = ahead[1:], ahead[-1]
    if "encoder.back.input.weight" in p:
        for e in read[::-1]:
            back.append(step("encoder.back", e, back[-1]))
        annotations = [np.concatenate(pair) for pair in zip(ahead[1:], back[:0:-1], strict=True)]
        first = back[-1]
    s, logits = np.tanh(p["start.weight"] @ first), []
    for word in target:
        e = p["tokens.weight"][word]
        asked = p["alignment.query.weight"] @ s
        scores = np.array([p["alignment.vector"][0] @ np.tanh(asked + p["alignment.key.weight"] @ h)
                           for h in annotations])  # fmt: skip
        weights = np.exp(scores) / np.exp(scores).sum()
        c = sum(weight * h for weight, h in zip(weights, annotations, strict=True))
        s = step("cell", e, s, c)
        t = p["deep.state.weight"] @ s + p["deep.input.weight"] @ e + p["deep.context.weight"] @ c
        t = np.array([max(t[i], t[i + 1], key=lambda x: x.real) for i in range(0, len(t), 2)])
        logits.append(p["head.weight"] @ t)
    return np.array(logits)


def arrays(made: Recurrent) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in made.state_dict().items()}


@pytest.mark.parametrize("bidirectional", [True, False])
def test_values_are_those_of_the_equations(bidirectional: bool) -> None:
    made = model(bidirectional=bidirectional)
    source, target = words(SOURCES, B, M), words(VOCABULARY, B, L)
    found = made(source, target).detach().numpy()
    for row in range(B):
        right = by_hand(arrays(made), source[row].tolist(), target[row].tolist())
        np.testing.assert_allclose(found[row], right, atol=1e-12, rtol=0)
    assert np.ptp(found) > 1  # not all the same


def test_gradients_are_those_of_the_equations() -> None:
    """Each parameter along random directions, with the complex step: f'(p)·d = Im f(p + ihd) / h, to the last digit."""
    made = model()
    source, target = words(SOURCES, 1, M), words(VOCABULARY, 1, L)
    pull = np.random.default_rng(3).normal(size=(L, VOCABULARY))
    (made(source, target)[0] * torch.from_numpy(pull)).sum().backward()
    own, draw, h = arrays(made), np.random.default_rng(5), 1e-30
    for name, parameter in made.named_parameters():
        for _ in range(3):
            direction = draw.normal(size=own[name].shape)
            moved = {**own, name: own[name] + 1j * h * direction}
            right = (by_hand(moved, source[0].tolist(), target[0].tolist()) * pull).sum().imag / h
            assert right != 0, name
            np.testing.assert_allclose((parameter.grad.numpy() * direction).sum(), right, rtol=1e-9, err_msg=name)


def test_a_stock_cell_differs() -> None:
    """torch's GRUCell resets after U and keeps the share z of the old state. Its other halves, put right, agree."""
    cell, stock = Cell(WIDTH, HIDDEN).double(), torch.nn.GRUCell(WIDTH, HIDDEN, bias=False).double()
    z, r, new = cell.input.weight.chunk(3)
    u_z, u_r = cell.gates.weight.chunk(2)
    with torch.no_grad():
        stock.weight_ih.copy_(torch.cat([r, z, new]))
        stock.weight_hh.copy_(torch.cat([u_r, u_z, cell.candidate.weight]))
    e, s = torch.randn(B, WIDTH, dtype=torch.float64), torch.randn(B, HIDDEN, dtype=torch.float64)
    ours = cell(cell.input(e), s)
    assert (ours - stock(e, s)).abs().max() > 0.05
    with torch.no_grad():  # z flipped by hand: what is left is the place of the reset
        stock.weight_ih[HIDDEN : 2 * HIDDEN] *= -1
        stock.weight_hh[HIDDEN : 2 * HIDDEN] *= -1
    assert (ours - stock(e, s)).abs().max() > 1e-3
    with torch.no_grad():  # without a state both resets do nothing
        torch.testing.assert_close(cell(cell.input(e), 0 * s), stock(e, 0 * s), atol=1e-14, rtol=0)


def padded(rows: list[Tensor], *, left: bool, fill: int) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows)) + 1  # one column is padding in every row
    tokens = torch.full((len(rows), longest), fill)
    keep = torch.zeros(len(rows), longest, dtype=torch.bool)
    for index, row in enumerate(rows):
        where = slice(longest - len(row), None) if left else slice(0, len(row))
        tokens[index, where], keep[index, where] = row, True
    return tokens, keep


@examples(12, 200)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 5)), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
@example(True, [(3, 2), (5, 1)], True, True)
@example(True, [(3, 2), (5, 1)], False, False)
@example(False, [(3, 2), (5, 1)], True, False)
def test_padding_on_either_side_moves_nothing(
    bidirectional: bool, lengths: list[tuple[int, int]], source_left: bool, target_left: bool
) -> None:
    made = model(bidirectional=bidirectional)
    sources = [words(SOURCES - 1, m) for m, _ in lengths]
    targets = [words(VOCABULARY - 1, n) for _, n in lengths]
    with torch.no_grad():  # what stands at padding must never arrive
        made.encoder.tokens.weight[SOURCES - 1] = NAN
        made.tokens.weight[VOCABULARY - 1] = NAN
    source, source_keep = padded(sources, left=source_left, fill=SOURCES - 1)
    target, target_keep = padded(targets, left=target_left, fill=VOCABULARY - 1)
    together = made(source, target, source_keep=source_keep, target_keep=target_keep)
    alone = [made(one[None], other[None])[0] for one, other in zip(sources, targets, strict=True)]
    torch.testing.assert_close(together[target_keep], torch.cat(alone), atol=1e-12, rtol=0)
    gradients = [torch.autograd.grad(x.square().sum(), list(made.parameters()), retain_graph=True)
                 for x in (together[target_keep], torch.cat(alone))]  # fmt: skip
    for found, right in zip(*gradients, strict=True):
        torch.testing.assert_close(found, right, atol=1e-9, rtol=1e-9)


def test_padding_counts_when_it_is_not_declared() -> None:
    made, source, target = model(), words(SOURCES, B, M), words(VOCABULARY, B, L)
    more = F.pad(source, (0, 1))
    assert (made(more, target) - made(source, target)).abs().max() > 1e-3


def test_one_token_at_a_time_is_all_at_once() -> None:
    made, source, target = model(), words(SOURCES, B, M), words(VOCABULARY, B, L)
    keep = torch.tensor([[False, False, *[True] * (M - 2)], [True] * M])
    whole = made(source, target, source_keep=keep)
    session = made.session(source, keep=keep)
    assert isinstance(session, Session) and (session.rows, session.room) == (B, None)
    for index in range(L):
        assert session.lengths.tolist() == [index] * B
        found = session.read(target[:, index : index + 1])
        torch.testing.assert_close(found, whole[:, index], atol=1e-12, rtol=0)


def test_pieces_of_different_lengths() -> None:
    """A ragged read gives the logits after each row's own last real token."""
    made, source, target = model(), words(SOURCES, B, M), words(VOCABULARY, B, 5)
    whole, session = made(source, target), made.session(source)
    keep = torch.tensor([[True, True, False], [False, True, True]])
    first = torch.stack([F.pad(target[0, :2], (0, 1)), F.pad(target[1, :2], (1, 0))])
    torch.testing.assert_close(session.read(first, keep), whole[:, 1], atol=1e-12, rtol=0)
    torch.testing.assert_close(session.read(target[:, 2:]), whole[:, 4], atol=1e-12, rtol=0)
    assert session.lengths.tolist() == [5, 5]


def test_rows_leave_repeat_and_join() -> None:
    made, target = model(), words(VOCABULARY, 5, 3)
    sources = [words(SOURCES, 2, 6), words(SOURCES, 3, 4)]
    ours, theirs = (made.session(source) for source in sources)
    ours.read(target[:2, :2])
    theirs.read(target[2:, :1])
    theirs.select(torch.tensor([2, 0, 0]))
    ours.join(theirs)
    assert (ours.rows, ours.lengths.tolist()) == (5, [2, 2, 1, 1, 1])
    found = ours.read(target[:, 2:])
    began = torch.stack([target[4, 0], target[2, 0], target[2, 0]])
    right = [
        made(sources[0], target[:2])[:, -1],
        made(sources[1][[2, 0, 0]], torch.stack([began, target[2:, 2]], 1))[:, -1],
    ]
    torch.testing.assert_close(found, torch.cat(right), atol=1e-12, rtol=0)


def test_an_empty_source_is_answered_without_context() -> None:
    made, target = model(), words(VOCABULARY, 1, L)
    nothing = torch.zeros(1, M, dtype=torch.bool)
    found = [made(words(SOURCES, 1, M), target, source_keep=nothing) for _ in range(2)]
    assert torch.isfinite(found[0]).all() and torch.equal(*found)


def test_mistakes_are_named() -> None:
    made, source, target = model(), words(SOURCES, B, M), words(VOCABULARY, B, L)
    with pytest.raises(ValueError, match="token 11 is outside of the vocabulary of 11"):
        made(torch.full((B, M), 11), target)
    with pytest.raises(ValueError, match="token 13 is outside of the vocabulary of 13"):
        made(source, torch.full((B, L), 13))
    with pytest.raises(ValueError, match=r"something to read: these tokens have shape \(2, 0\)"):
        made(source, target[:, :0])
    with pytest.raises(ValueError, match="has 2 sources, and there are tokens for 1 targets"):
        made.session(source).read(target[:1])
    with pytest.raises(ValueError, match="nothing but padding"):
        made.session(source).read(target, torch.zeros(B, L, dtype=torch.bool))


def test_the_configuration_reads_back_and_counts_the_papers_model() -> None:
    config = RecurrentConfig(
        source_vocabulary=SOURCES, vocabulary=VOCABULARY, width=WIDTH, hidden=HIDDEN, special=Special(start=1, end=(2,))
    )
    assert RecurrentConfig(**json.loads(config.model_dump_json())) == config
    with pytest.raises(ValueError, match=r"no option 'hiden' \(did you mean hidden\?\)"):
        RecurrentConfig(source_vocabulary=3, vocabulary=3, width=3, hiden=5)
    m, n, v = 620, 1000, 30000  # RNNsearch: appendix A.2.3, where n' = n and l = 500
    encoder = 2 * (3 * m * n + 3 * n * n)
    decoder = n * n + 3 * (m * n + n * n + 2 * n * n)
    alignment, deep = n * n + 2 * n * n + n, 2 * 500 * (n + m + 2 * n)
    total = 2 * v * m + encoder + decoder + alignment + deep + 500 * v
    assert count(RecurrentConfig(source_vocabulary=v, vocabulary=v, width=m, hidden=n)) == total
    assert fresh(config)(words(SOURCES, B, M), words(VOCABULARY, B, L)).shape == (B, L, VOCABULARY)


START, END, LETTERS, LONGEST = 0, 1, 7, 4


def reversals(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources of 2 to 4 letters, which of their places are real, and the same letters backwards with an end."""
    length = torch.randint(2, LONGEST + 1, (rows, 1))
    keep = torch.arange(LONGEST) < length
    source = torch.randint(2, LETTERS, (rows, LONGEST))
    places = length - 1 - torch.arange(LONGEST + 1)
    answer = source.gather(1, places.clamp(min=0)).masked_fill(places < 0, END)
    return source, keep, answer


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are checked in the tests above; in training the checks would take most of the time."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("unchecked")
def test_it_learns_to_reverse() -> None:
    made = Recurrent(RecurrentConfig(source_vocabulary=LETTERS, vocabulary=LETTERS, width=13, hidden=31))
    optimiser = torch.optim.Adam(made.parameters(), lr=0.02)
    losses = []
    for _ in range(100):
        source, keep, answer = reversals(24)
        wanted = torch.arange(LONGEST + 1) <= keep.sum(1, keepdim=True)
        logits = made(source, F.pad(answer[:, :-1], (1, 0), value=START), source_keep=keep)
        loss = F.cross_entropy(logits[wanted], answer[wanted])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < sum(losses[:5]) / 8
    source, keep, answer = reversals(61)
    session, said = made.session(source, keep=keep), [torch.full((61, 1), START)]
    for _ in range(LONGEST + 1):
        said.append(session.read(said[-1]).argmax(-1, keepdim=True))
    before_end = torch.arange(LONGEST + 1) <= keep.sum(1, keepdim=True)
    right = ((torch.cat(said[1:], 1) == answer) | ~before_end).all(1)
    assert right.float().mean() > 0.8
