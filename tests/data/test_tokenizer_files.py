"""Marian's tokenizer files: the tokens and texts that transformers gives, from two SentencePiece models made here."""

import io
import json
import warnings
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import models

from headway.data.tokenizer import Tokenizer, engine_errors
from headway.data.tokenizer_files import END, PAD, UNKNOWN, SentencePiece, marian_engine

LINES = [line.strip() for topic in sorted(topics)[:40] for line in topics[topic].splitlines() if len(line) > 30]
ODD = ["", "   ", "  two  spaces ", ">>fra<< hello", ">>fra<<hello", "日本語 text 日本", "ﬁne ½ Ⅷ", "a</s>b",
       "tab\there", "\u3000wide\u3000", "x" * 50, "é è", "\ue000a", "e\u0301"]  # fmt: skip


def train(path: Path, lines: list[str], size: int, **options: object) -> list[str]:
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=made, vocab_size=size, minloglevel=2, num_threads=1, **options
    )
    path.write_bytes(made.getvalue())
    read = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [read.id_to_piece(i) for i in range(read.get_piece_size()) if not read.is_control(i) | read.is_unknown(i)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marian")
    source = train(path / "source.spm", LINES[:600], 293)
    target = train(path / "target.spm", [line[::-1].replace("e", "é") for line in LINES[:600]], 307)
    words = [END, UNKNOWN, *dict.fromkeys(target + source), ">>fra<<", PAD]
    assert len(set(target) - set(source)) > 20 and len(set(source) - set(target)) > 20
    (path / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    return path


@pytest.fixture(scope="module")
def pair(place: Path):
    from transformers import MarianTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = MarianTokenizer(str(place / "source.spm"), str(place / "target.spm"), str(place / "vocab.json"))
    return theirs, Tokenizer(marian_engine(place), {"eos_token": END})


def test_a_source_is_cut_as_there(pair, place: Path) -> None:
    theirs, ours = pair
    scores = SentencePiece.read(place / "source.spm").scores
    for line in LINES[600:1200] + ODD:
        expected, found = theirs(line)["input_ids"], ours.encode(line)
        if expected != found:  # only where two ways to cut are equally likely
            totals = [sum(scores[word] for word in theirs.convert_ids_to_tokens(ids[:-1])) for ids in (expected, found)]
            assert totals[0] == pytest.approx(totals[1]), line


@given(tokens=st.lists(st.integers(2, 400), max_size=11))
def test_tokens_become_the_same_text(pair, tokens: list[int]) -> None:
    theirs, ours = pair
    assert ours.decode(tokens).strip() == theirs.decode(tokens, skip_special_tokens=True)


def test_a_target_comes_back(pair) -> None:
    theirs, ours = pair
    for line in LINES[600:700]:
        target = line[::-1].replace("e", "é")
        tokens = theirs(text_target=target)["input_ids"]
        assert ours.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True)


def test_it_survives_being_saved(pair, tmp_path: Path) -> None:
    _, ours = pair
    ours.save(tmp_path)
    again = Tokenizer.read(tmp_path)
    assert again is not None and again.end == 0
    for line in LINES[600:620] + ODD:
        assert again.encode(line) == ours.encode(line) and again.decode(again.encode(line)) == ours.decode(
            ours.encode(line)
        )


def test_other_directories_have_none(place: Path, tmp_path: Path) -> None:
    assert marian_engine(tmp_path) is None
    for name in ("source.spm", "vocab.json"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    assert marian_engine(tmp_path) is not None
    (tmp_path / "target_vocab.json").write_text("{}")  # each language with numbers of its own
    assert marian_engine(tmp_path) is None


def test_what_cannot_be_read_is_refused(place: Path, tmp_path: Path) -> None:
    whole = (place / "source.spm").read_bytes()
    (tmp_path / "vocab.json").write_text(json.dumps({END: 0, UNKNOWN: 1}))
    for content in (b"", b"not a model", whole[: len(whole) // 2]):
        (tmp_path / "source.spm").write_bytes(content)
        with pytest.raises(ValueError, match=r"source.spm is not a SentencePiece model"):
            marian_engine(tmp_path)
    train(tmp_path / "source.spm", LINES[:100], 97, model_type="bpe")
    with pytest.raises(ValueError, match="no unigram model"):
        marian_engine(tmp_path)
    (tmp_path / "source.spm").write_bytes(whole)
    (tmp_path / "vocab.json").write_text(json.dumps({END: 0, UNKNOWN: 2}))
    with pytest.raises(ValueError, match="does not number its pieces"):
        marian_engine(tmp_path)


def test_a_vocabulary_without_its_unknown_token_is_said_when_it_is_needed() -> None:
    """The library raises a plain Exception at the first unknown word."""
    tokenizer = Tokenizer(Engine(models.WordPiece({"a": 0}, unk_token="[UNK]")))
    assert tokenizer.encode("a") == [0]
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_all([text])):
        with pytest.raises(ValueError, match="the tokenizer cannot encode or decode this: WordPiece error: Missing"):
            encode("b")
    with pytest.raises(TypeError), engine_errors():  # a mistake in code, not in a file
        tokenizer.engine.encode(3)
