"""Tokenizers learnt from text: they bring text back, others read them, and they are the same each time."""

import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from headway.config.train import Task, TokenizerConfig
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import KINDS, ROLES, digest, literal, read_tokenizer, train_tokenizer

TEXTS = (
    "The quick brown fox jumps over the lazy dog.\n\nThe dog sleeps;  the fox does not.\t(Ha!)\r\n",
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme: ¿quién, y cuándo? Ñandú, pingüino.",
    "2 + 2 = 4, and 中文 has no spaces 🙂 between its characters; e\u0301 is not é. ",
)
EXACT = ("byte", "bpe", "unigram")


def made(kind: str, task: Task = "language", **more: object) -> Tokenizer:
    return train_tokenizer(
        iter(TEXTS), TokenizerConfig.model_validate({"kind": kind, "vocabulary": 300, **more}), task=task
    )


@pytest.mark.parametrize("kind", EXACT)
@given(text=st.text())
def test_bytes_bring_any_text_back(kind: str, text: str) -> None:
    tokenizer = literal(_known(kind))
    assert tokenizer.decode(tokenizer.encode(text)) == text


_MADE: dict[str, Tokenizer] = {}


def _known(kind: str) -> Tokenizer:
    return _MADE.setdefault(kind, made(kind))


@given(text=st.text(alphabet=sorted(set("".join(TEXTS)))))
def test_characters_bring_known_text_back(text: str) -> None:
    tokenizer = _known("character")
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert len(tokens) == len(text)


def test_a_character_never_seen_is_unknown_and_no_other_is() -> None:
    tokenizer = _known("character")
    unknown = tokenizer.engine.token_to_id("<unk>")
    places = [at for at, token in enumerate(tokenizer.encode("fox Ж\nß dog")) if token == unknown]
    assert places == [4, 6]
    assert tokenizer.size == len(set("".join(TEXTS))) + 2


def test_a_byte_is_its_own_number() -> None:
    tokenizer = made("byte")
    assert tokenizer.encode("aé\n\0") == list("aé\n\0".encode())
    assert (tokenizer.size, tokenizer.end) == (257, 256)


def test_pieces_that_continue_a_word_are_marked() -> None:
    tokens = made("wordpiece").engine.encode("foxfox").tokens
    assert not tokens[0].startswith("##")
    assert all(token.startswith("##") for token in tokens[1:])
    assert "".join(tokens).replace("##", "") == "foxfox"


@pytest.mark.parametrize("kind", KINDS)
def test_lower_makes_capitals_and_small_letters_one(kind: str) -> None:
    lower, plain = made(kind, lower=True), made(kind)
    assert lower.encode("THE Fox") == lower.encode("the fox")
    assert plain.encode("The") != plain.encode("the")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ROLES)
def test_it_is_the_same_after_saving_here_and_in_transformers(kind: str, task: Task, tmp_path: Path) -> None:
    tokenizer = made(kind, task)
    tokenizer.save(tmp_path)
    again, theirs = Tokenizer.read(tmp_path), PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert again is not None
    assert again.special == tokenizer.special
    assert digest(again) == digest(tokenizer)
    for text in (*TEXTS, " ", "<|end|>", "a [MASK] b", "Ж"):
        tokens = tokenizer.encode(text)
        assert again.encode(text) == theirs(text)["input_ids"] == tokens
        assert again.decode(tokens) == theirs.decode(tokens, skip_special_tokens=True) == tokenizer.decode(tokens)
    pair = theirs("a dog", "the fox")
    assert pair["input_ids"] == tokenizer.encode("a dog", "the fox")
    for name, number in {"eos": tokenizer.end, "pad": tokenizer.pad, "mask": tokenizer.mask}.items():
        if number is not None and f"{name}_token" in tokenizer.special:
            assert getattr(theirs, f"{name}_token_id") == number


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["masked", "classify", "embed"])
def test_whole_texts_stand_between_their_marks(kind: str, task: Task) -> None:
    tokenizer = made(kind, task)
    found = tokenizer.engine.encode("fox", "dog")
    inner = [tokenizer.encode(text, special=False) for text in ("fox", "dog")]
    assert found.ids == [tokenizer.begin, *inner[0], tokenizer.end, *inner[1], tokenizer.end]
    assert found.type_ids == [0] * (len(inner[0]) + 2) + [1] * (len(inner[1]) + 1)
    numbers = {tokenizer.begin, tokenizer.end, tokenizer.pad, tokenizer.mask, tokenizer.engine.token_to_id("[UNK]")}
    assert None not in numbers
    assert len(numbers) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_translations_end_and_other_texts_do_not(kind: str) -> None:
    pairs, language = made(kind, "seq2seq"), made(kind)
    assert pairs.encode("fox") == [*pairs.encode("fox", special=False), pairs.end]
    assert len({pairs.begin, pairs.end, pairs.pad}) == 3
    assert language.end not in language.encode("fox")
    assert language.engine.id_to_token(language.end or 0) == "<|end|>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ROLES)
def test_data_cannot_speak_in_special_tokens(kind: str, task: Task) -> None:
    tokenizer = made(kind, task)
    special = {
        tokenizer.engine.token_to_id(word): word for key, word in tokenizer.special.items() if key != "unk_token"
    }
    for number, word in special.items():
        # In a prompt the word is the token: the test could not fail otherwise.
        assert number in tokenizer.encode(f"fox {word} dog", special=False)
        assert not set(special) & set(literal(tokenizer).encode(f"fox {word}{word} dog", special=False))
        assert not set(special) & set(literal(tokenizer).encode(word, special=False))
    assert literal(tokenizer).encode("fox") == tokenizer.encode("fox")


def test_special_words_in_the_data_are_learnt_as_text() -> None:
    config = TokenizerConfig(vocabulary=300)
    tokenizer = literal(train_tokenizer(["<|end|> is a word here. " * 7, "<|end|>"], config, task="language"))
    tokens = tokenizer.encode("<|end|>")
    assert tokenizer.end not in tokens
    assert tokenizer.decode(tokens) == "<|end|>"


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_learns_the_same(kind: str) -> None:
    code = (
        "from headway.config.train import TokenizerConfig\n"
        "from headway.data.tokenizer_training import digest, train_tokenizer\n"
        f"config = TokenizerConfig(kind={kind!r}, vocabulary=300)\n"
        f"print(digest(train_tokenizer({TEXTS!r}, config, task='masked')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest(made(kind, "masked"))
    assert digest(made(kind, "masked")) != digest(made(kind, "language"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_without_text_there_is_no_tokenizer(kind: str, texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^there is no text to learn a tokenizer from"):
        train_tokenizer(iter(texts), TokenizerConfig.model_validate({"kind": kind}), task="language")


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_is_too_small_is_refused_with_the_least(kind: str) -> None:
    with pytest.raises(ValueError, match=r"a vocabulary of 11 is too small .* tokenizer.vocabulary to") as refusal:
        made(kind, vocabulary=11)
    least = int(str(refusal.value).split("tokenizer.vocabulary to ")[1].split()[0])
    assert made(kind, vocabulary=least).size == least
    with pytest.raises(ValueError, match="too small"):
        made(kind, vocabulary=least - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_trouble_in_the_data_arrives_as_it_is(kind: str) -> None:
    def broken():
        yield from TEXTS if kind != "byte" else ()
        raise ValueError("line 3 of menu.txt is not UTF-8 text")

    with pytest.raises(ValueError, match=r"^line 3 of menu.txt is not UTF-8 text$"):
        train_tokenizer(broken(), TokenizerConfig.model_validate({"kind": kind, "vocabulary": 300}), task="language")


def test_an_existing_tokenizer_is_read_from_file_and_directory(tmp_path: Path) -> None:
    tokenizer = made("bpe", "seq2seq")
    tokenizer.save(tmp_path)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        found = train_tokenizer(iter(()), TokenizerConfig(path=str(path)), task="seq2seq")
        assert (digest(found), found.pad) == (digest(tokenizer), tokenizer.pad)
    (tmp_path / "other.json").write_bytes((tmp_path / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").unlink()
    for path in (tmp_path / "other.json", tmp_path):
        assert read_tokenizer(path, "seq2seq").special == tokenizer.special


def test_a_path_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no tokenizer")
    for path in (tmp_path, tmp_path / "none", tmp_path / "none" / "tokenizer.json"):
        with pytest.raises(ValueError, match=r"^there is no tokenizer in "):
            read_tokenizer(path, "language")
    with pytest.raises(ValueError, match=r"notes\.txt is no tokenizer that can be read"):
        read_tokenizer(tmp_path / "notes.txt", "language")


def test_a_tokenizer_without_the_tokens_of_the_task_is_refused(tmp_path: Path) -> None:
    made("bpe").save(tmp_path)
    assert read_tokenizer(tmp_path, "language").end is not None
    with pytest.raises(ValueError, match=r"has no token for begin, pad, mask, which the task masked needs"):
        read_tokenizer(tmp_path, "masked")


def test_every_task_with_text_has_special_tokens() -> None:
    assert set(ROLES) == set(get_args(Task)) - {"images"}
    with pytest.raises(ValueError, match="the task images has no text"):
        train_tokenizer(TEXTS, TokenizerConfig(), task="images")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_word_without_end_is_learnt_from_in_pieces(kind: Literal["bpe", "wordpiece", "unigram"]) -> None:
    config = TokenizerConfig(kind=kind, vocabulary=1_000)
    endless = "ab" * 600_000
    found = train_tokenizer(["to be or not to be", endless, "to be"], config, task="language")
    assert found.decode(found.encode("to be")).replace(" ", "") == "tobe"
    if kind != "wordpiece":  # whose words have at most 100 letters
        assert found.decode(found.encode(endless)) == endless
