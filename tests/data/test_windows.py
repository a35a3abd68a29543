"""Windows and packed documents, against the text they were made of."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers

from headway.config.base import IGNORED
from headway.data import shard_writer
from headway.data.loader import Order, keys_of
from headway.data.shard_writer import build
from headway.data.shards import TokenView
from headway.data.source import Document
from headway.data.tokenizer import Tokenizer
from headway.data.windows import PackedDocuments, Windows

LENGTH = 7


def numbers(first: int, count: int) -> str:
    return "".join(f" {number}" for number in range(first, first + count))


def view_of(place: Path, *documents: str, end: bool = True) -> TokenView:
    """Documents of numbers, where token n + 1 is the number n and token 0 is the end."""
    names = {"<end>": 0, **{str(number): number + 1 for number in range(2000)}}
    engine = Engine(models.WordLevel(names, unk_token="<end>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    by = Tokenizer(engine, {"eos_token": "<end>"} if end else {})
    texts = [Document(text, text) for text in documents]
    return build(texts, by, place, identity="x", shard_tokens=59).view()


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_writer, "CHUNKS", 1)


@pytest.fixture
def view(tmp_path: Path) -> TokenView:
    return view_of(tmp_path, numbers(0, 1117))


def test_side_by_side_windows_predict_every_token_once(view: TokenView) -> None:
    windows = Windows(view, LENGTH, shift=False)
    assert len(view.shards.parts) > 3
    rows = np.arange(len(windows))
    batch = windows.batch(rows, keys_of(1, rows))
    tokens, targets = batch.inputs["tokens"], batch.inputs["targets"]
    asked = targets[targets != IGNORED]
    assert asked.tolist() == view.read(1, view.total).tolist()
    assert batch.counts == {"loss": len(asked)} == {"loss": view.total - 1}
    assert len(windows) == math.ceil((view.total - 1) / LENGTH) and (view.total - 1) % LENGTH
    assert (tokens.dtype, targets.dtype) == (torch.int64, torch.int64)
    assert tokens[targets != IGNORED].tolist() == view.read(0, view.total - 1).tolist()


def test_the_last_window_may_be_whole(tmp_path: Path) -> None:
    view = view_of(tmp_path, numbers(0, 3 * LENGTH - 1))  # and the end
    batch = Windows(view, LENGTH, shift=False).batch(np.arange(3), np.arange(3))
    assert batch.counts == {"loss": 3 * LENGTH} and IGNORED not in batch.inputs["targets"]


def test_shifted_windows_are_shifted_by_their_keys(view: TokenView) -> None:
    windows = Windows(view, LENGTH)
    assert len(windows) == (view.total - 1) // LENGTH
    rows, keys = np.array([5, 2, 5, 0]), np.array([3, 0, LENGTH + 4, 2 * LENGTH - 1])
    batch = windows.batch(rows, keys)
    starts = [5 * LENGTH + 3, 2 * LENGTH, 5 * LENGTH + 4, LENGTH - 1]
    assert batch.inputs["tokens"].tolist() == [view.read(at, at + LENGTH).tolist() for at in starts]
    assert batch.inputs["targets"].tolist() == [view.read(at + 1, at + LENGTH + 1).tolist() for at in starts]
    assert batch.counts == {"loss": 4 * LENGTH}
    last = windows.batch(np.array([len(windows) - 1]), np.array([LENGTH - 1]))
    assert last.inputs["targets"][0].tolist() == view.read(view.total - LENGTH, view.total).tolist()


def test_an_epoch_meets_all_tokens_and_processes_share_a_batch(view: TokenView) -> None:
    windows = Windows(view, LENGTH)
    order = Order(len(windows), seed=3)
    seen = {token for epoch in range(40) for token in _tokens(windows, *_epoch(order, epoch))}
    assert seen == set(view.read(0, view.total - 1).tolist())
    rows, keys = order.rows(12, 24)
    parts = [windows.batch(*order.rows(first, first + 4)).inputs["tokens"] for first in (12, 16, 20)]
    assert torch.equal(torch.cat(parts), windows.batch(rows, keys).inputs["tokens"])


def _epoch(order: Order, number: int) -> tuple[np.ndarray, np.ndarray]:
    return order.rows(number * order.count, (number + 1) * order.count)


def _tokens(windows: Windows, rows: np.ndarray, keys: np.ndarray) -> list[int]:
    return windows.batch(rows, keys).inputs["tokens"].flatten().tolist()


def test_a_split_is_predicted_by_one_side_each(view: TokenView) -> None:
    train, validation = view.shards.split(0.1)
    found = []
    for side in (train, validation):
        windows = Windows(side, LENGTH, shift=False)
        targets = windows.batch(np.arange(len(windows)), np.arange(len(windows))).inputs["targets"]
        found += targets[targets != IGNORED].tolist()
    assert found == view.read(1, view.total).tolist()


def test_too_little_data_is_told(tmp_path: Path) -> None:
    view = view_of(tmp_path, numbers(0, 3))
    expected = "the validation data has 5 tokens, and one window needs 8: give more text, or a length below 5"
    with pytest.raises(ValueError, match=f"^{expected}$"):
        Windows(view, LENGTH, name="the validation data")
    assert len(Windows(view, 4)) == 1
    with pytest.raises(ValueError, match="needs 6"):
        Windows(view, 5)


@pytest.mark.parametrize("end", [True, False])
def test_packed_documents_are_predicted_whole_and_alone(tmp_path: Path, end: bool) -> None:
    counts = (3, 17, 1, 7, 8, 2)
    starts = np.cumsum([0, *counts])
    documents = [numbers(int(start), count) for start, count in zip(starts, counts, strict=False)]
    packed = PackedDocuments(view_of(tmp_path, *documents, end=end), LENGTH)
    rows = np.random.default_rng(0).permutation(len(packed))
    batch = packed.batch(rows, rows)
    tokens, targets, lengths = (batch.inputs[name] for name in ("tokens", "targets", "lengths"))
    assert tokens.shape == targets.shape == (1, int(lengths.sum())) and batch.counts == {"loss": targets.numel()}
    assert lengths.dtype == torch.int64 and lengths.tolist() == sorted(lengths.tolist()) and max(lengths) <= LENGTH
    pairs = sorted(zip(tokens[0].tolist(), targets[0].tolist(), strict=True))
    expected = []
    for start, count in zip(starts, counts, strict=False):
        row = [int(start) + 1 + at for at in range(count)]
        row = [0, *row, 0] if end else row
        expected += list(pairwise(row))
    assert pairs == sorted(expected)
    pieces = [_rows.tolist() for _rows in targets[0].split(lengths.tolist())]
    whose = [{int(np.searchsorted(starts, token - 1, side="right")) for token in piece if token} for piece in pieces]
    assert max(map(len, whose)) == 1  # no piece has two documents


def test_packed_views_share_the_tokens_of_a_split(tmp_path: Path) -> None:
    view = view_of(tmp_path, *(numbers(100 * at, 37 + at) for at in range(11)))
    found = []
    for side in view.shards.split(0.3):
        packed = PackedDocuments(side, LENGTH)
        found += packed.batch(np.arange(len(packed)), np.arange(len(packed))).inputs["targets"].flatten().tolist()
    assert sorted(found) == sorted(view.read(1, view.total).tolist())


def test_nothing_to_pack_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the data has 1 tokens, and nothing in it can be predicted"):
        PackedDocuments(view_of(tmp_path, "7", end=False), LENGTH)
