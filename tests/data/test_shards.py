"""Tokens on disk are the tokens of the text, whatever was killed, changed or cut in between."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.data import shard_writer
from headway.data.shard_writer import TokenizingProgress, build, chunks_of
from headway.data.shards import Shards
from headway.data.source import Document
from headway.data.tokenizer import Tokenizer

END = "<|endoftext|>"
WORDS = [
    "\n",
    "\n",
    "\n",
    "attention",
    "is",
    "all",
    "you",
    "need",
    "é",
    "\n",
    "\n\n",
    "  indented",
    "def f(x):",
    "naïve",
    "🙂",
]


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_writer, "CHUNKS", 2)


def piece(text: str, ends: bool = True) -> Document:
    return Document("here", text, ends)


def tokenizer(*, end: bool = True, vocabulary: int = 300) -> Tokenizer:
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END] if end else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator([" ".join(WORDS) * 3], trainer)
    return Tokenizer(engine, {"eos_token": END} if end else {})


def text_of(seed: int, words: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words)).replace(" \n ", "\n")


TEXTS = [text_of(seed, words) for seed, words in enumerate((2003, 5, 1, 997, 13))]


def whole(by: Tokenizer, texts: list[str]) -> list[int]:
    """What the shards should hold, encoded without any cut."""
    assert by.end is not None
    return [by.end] + [token for text in texts for token in [*by.encode(text, special=False), by.end]]


def pieces(texts: list[str]) -> Iterator[Document]:
    yield from (piece(text) for text in texts)


def test_the_tokens_are_those_of_the_whole_texts(tmp_path: Path) -> None:
    by = tokenizer()
    found = build(pieces(TEXTS), by, tmp_path, identity="a", shard_tokens=1009)
    expected = whole(by, TEXTS)
    assert len(found.parts) > 3 and found.parts[0].array.dtype == np.uint16
    assert found.read(0, found.total).tolist() == expected
    assert found.bytes == sum(len(text.encode()) for text in TEXTS)
    assert found.manifest["documents"] == len(found.documents) == len(TEXTS)
    starts = [1 + sum(len(by.encode(text, special=False)) + 1 for text in TEXTS[:at]) for at in range(len(TEXTS))]
    assert found.documents.tolist() == starts
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["documents.npy", "manifest.json", "marks.npy", *(f"shard-{at:05d}.npy" for at in range(len(found.parts)))]
    )


def test_any_stretch_is_read_across_shards(tmp_path: Path) -> None:
    by = tokenizer()
    found, expected = build(pieces(TEXTS), by, tmp_path, identity="a", shard_tokens=499), whole(by, TEXTS)
    cuts = [0, 1, *(int(at) for at in found.offsets[1:-1]), found.total - 1, found.total]
    for start in cuts:
        for stop in (stop for stop in cuts if stop >= start):
            assert found.read(start, stop).tolist() == expected[start:stop]
    starts = np.array([*found.offsets[:-2], found.offsets[1] - 3, found.total - 7])
    assert found.gather(starts, 7).tolist() == [expected[start : start + 7] for start in starts]
    inside = np.array([11, 3, 17])
    assert found.gather(inside, 7).tolist() == [expected[start : start + 7] for start in inside]
    with pytest.raises(ValueError, match="tokens 5 to 9999999 were asked for, and there are"):
        found.read(5, 9999999)


def test_without_an_end_token_documents_simply_follow(tmp_path: Path) -> None:
    by = tokenizer(end=False)
    found = build(pieces(TEXTS), by, tmp_path, identity="a")
    assert found.read(0, found.total).tolist() == [t for text in TEXTS for t in by.encode(text, special=False)]
    assert found.documents[0] == 0


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    names = {f"w{number}": number for number in range(65537)}
    engine = Engine(models.WordLevel(names, unk_token="w0"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found = build([piece("w65536 w7")], Tokenizer(engine), tmp_path, identity="a")
    assert found.parts[0].array.dtype == np.uint32
    assert found.read(0, 2).tolist() == [65536, 7]


def refuse() -> Iterator[Document]:
    raise AssertionError("the documents were read again")
    yield


def test_it_is_used_again_and_made_anew_when_data_or_tokenizer_differ(tmp_path: Path) -> None:
    by = tokenizer()
    first = build(pieces(TEXTS), by, tmp_path, identity="a", shard_tokens=499)
    assert build(refuse(), by, tmp_path, identity="a").total == first.total
    with pytest.raises(AssertionError, match="read again"):
        build(refuse(), by, tmp_path, identity="b")
    assert not list(tmp_path.glob("shard-*"))
    second = build(pieces(TEXTS[1:2]), by, tmp_path, identity="b")
    assert second.read(0, second.total).tolist() == whole(by, TEXTS[1:2])
    other = tokenizer(vocabulary=280)
    third = build(pieces(TEXTS[1:2]), other, tmp_path, identity="b")
    assert third.read(0, third.total).tolist() == whole(other, TEXTS[1:2])


def test_what_was_finished_is_kept_and_not_tokenised_again(tmp_path: Path) -> None:
    by = tokenizer()
    texts = [text_of(7, 5003)]
    encoded: list[int] = []

    class Counting(Tokenizer):
        def encode_all(self, texts: list[str], *, special: bool = True) -> list[list[int]]:  # type: ignore[override]
            encoded.append(sum(map(len, texts)))
            return super().encode_all(texts, special=special)

    def stop(progress: TokenizingProgress) -> None:
        if progress.tokens > 3001:
            raise KeyboardInterrupt

    counting = Counting(by.engine, by.special)
    with pytest.raises(KeyboardInterrupt):
        build(pieces(texts), counting, tmp_path, identity="a", progress=stop, shard_tokens=701)
    with pytest.raises(ValueError, match="holds tokens of a part of the data only"):
        Shards.open(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("shard-?????.npy")}
    assert len(kept) >= 3
    encoded.clear()
    found = build(pieces(texts), counting, tmp_path, identity="a", shard_tokens=701)
    assert sum(encoded) < len(texts[0]) * 0.9
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert found.read(0, found.total).tolist() == whole(by, texts)
    fresh = build(pieces(texts), by, tmp_path / "fresh", identity="a", shard_tokens=701)
    assert fresh.manifest == found.manifest
    assert np.array_equal(fresh.marks, found.marks) and np.array_equal(fresh.documents, found.documents)


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
import test_shards as t
t.shard_writer.CHUNKS = 2
def stop(progress):
    if progress.tokens > 3001: os.kill(os.getpid(), signal.SIGKILL)
t.build(t.pieces([t.text_of(7, 5003)]), t.tokenizer(), {place!r}, identity="a", progress=stop, shard_tokens=701)
"""


def test_kill_9_loses_one_shard_at_most(tmp_path: Path) -> None:
    code = KILLED.format(here=str(Path(__file__).parent), place=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(json.loads((tmp_path / "manifest.json").read_text())["shards"]) >= 3
    found = build(pieces([text_of(7, 5003)]), tokenizer(), tmp_path, identity="a", shard_tokens=701)
    assert found.read(0, found.total).tolist() == whole(tokenizer(), [text_of(7, 5003)])


def test_a_damaged_directory_is_told(tmp_path: Path) -> None:
    by = tokenizer()
    with pytest.raises(ValueError, match=r"has no manifest.json"):
        Shards.open(tmp_path)
    with pytest.raises(ValueError, match="there is no text in the data: every document is empty"):
        build(pieces(["", ""]), by, tmp_path, identity="a")
    build(pieces(TEXTS), by, tmp_path, identity="a")
    said = json.loads((tmp_path / "manifest.json").read_text())
    for key, value, complaint in (
        ("bytes", {}, "says neither"),
        ("bytes", -1, "says neither"),
        ("end", "x", "says neither"),
        ("end", ..., "not say 'end'"),
    ):
        changed = {**said, key: value} if value is not ... else {name: one for name, one in said.items() if name != key}
        (tmp_path / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=f"manifest.json.* {complaint}"):
            Shards.open(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    path = tmp_path / "shard-00000.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    with pytest.raises(ValueError, match=r"shard-00000.npy cannot be read .* remove .*, and it is made again"):
        Shards.open(tmp_path)
    np.save(path, np.arange(7, dtype=np.uint16))
    with pytest.raises(ValueError, match="has 7 tokens where the manifest says"):
        Shards.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    assert build(pieces(TEXTS), by, tmp_path, identity="a").read(0, 9).tolist() == whole(by, TEXTS)[:9]


@pytest.mark.parametrize("held", [0.1, 0.37, 0.5])
def test_both_sides_of_a_split_are_exact(tmp_path: Path, held: float) -> None:
    by = tokenizer()
    found = build(pieces(TEXTS), by, tmp_path, identity="a", shard_tokens=499)
    train, validation = found.split(held)
    assert abs(validation.total / found.total - held) < 0.05
    joined = np.concatenate([train.read(0, train.total), validation.read(1, validation.total)])
    assert np.array_equal(joined, found.read(0, found.total))
    assert validation.read(0, 1) == train.read(train.total - 1, train.total)
    for view in (train, validation):
        assert view.bytes == len(by.decode(view.read(1, view.total).tolist()).encode())
    assert np.array_equal(validation.documents + validation.start, found.documents[found.documents >= validation.start])


def test_a_text_that_is_too_small_for_a_split(tmp_path: Path) -> None:
    found = build(pieces(["need"]), tokenizer(), tmp_path, identity="a")
    with pytest.raises(ValueError, match=r"a text of \d+ tokens is too small to hold back a part of it"):
        found.split(0.1)
    train, validation = found.split(0.0)
    assert (train.total, train.bytes, validation.total, validation.bytes) == (found.total, 4, 1, 0)
    with pytest.raises(ValueError, match=r"at least 0 and below 1, not 1.0"):
        found.split(1.0)


@given(st.lists(st.tuples(st.text(" ab\né", max_size=900), st.booleans()), max_size=6), st.integers(1, 400))
def test_cuts_do_not_depend_on_how_a_document_arrives(parts: list[tuple[str, bool]], size: int) -> None:
    texts = [piece(text, ends) for text, ends in parts]
    texts.append(piece("", ends=True))

    def small() -> Iterator[Document]:
        for one in texts:
            for at in range(0, len(one.text), size):
                yield piece(one.text[at : at + size], ends=False)
            yield piece("", one.ends)

    one, other = list(chunks_of(texts)), list(chunks_of(small()))
    assert one == other
    assert "".join(chunk.text for chunk in one) == "".join(one.text for one in texts)
    assert sum(chunk.starts for chunk in one) == sum(chunk.ends for chunk in one)


def test_a_line_of_ten_megabytes_is_cut(tmp_path: Path) -> None:
    found = list(chunks_of([piece("x" * 10_000_000)]))
    assert max(len(chunk.text) for chunk in found) <= 2 * shard_writer.LARGEST
    assert sum(len(chunk.text) for chunk in found) == 10_000_000
