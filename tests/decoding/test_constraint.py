"""Texts that match a regular expression or a JSON schema: the automaton against Python's own matcher, tokens against
brute force, and the decoding loop."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers

import headway as hw
from headway.cli import main
from headway.config.train import TokenizerConfig
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import train_tokenizer
from headway.decoding.automaton import LAST, BytePattern, chars
from headway.decoding.constraint import AllowedTokens, TokenBytes
from headway.decoding.json_schema import json_schema
from headway.decoding.regex import regex

TEXTS = [
    '{"name": "Zoë", "age": 31, "tags": ["a", "b"]}',
    "naïve 🙂 café 1999-12-31",
    "the cat sat; -7.5e3 [null, true]",
]


def matches(pattern: BytePattern, text: str) -> bool:
    state = pattern.after(pattern.start, text.encode())
    return state is not None and pattern.accepts(state)


ATOMS = st.sampled_from(
    ["a", "b", "ü", "🙂", ".", "[ab]", "[^a]", "[a-cü-🙂]", r"\d", r"\w", r"\s", r"\W", "-", r"\.", "[^\\d\\n]", "(?:)"]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS, st.text("aabü🙂5 .-\n_x٣", max_size=7))
def test_an_automaton_matches_what_python_matches(expression: str, text: str) -> None:
    assert matches(regex(expression), text) == (re.fullmatch(expression, text) is not None)


@given(st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 5000)), min_size=1, max_size=3), st.integers(0, LAST))
def test_ranges_of_characters_are_their_bytes(ranges: list[tuple[int, int]], code: int) -> None:
    limits = [(first, min(first + size, LAST)) for first, size in ranges]
    try:
        pattern = BytePattern(chars(*limits))
    except ValueError:
        assert all(first >= 0xD800 and last <= 0xDFFF for first, last in limits)
        return
    for one in (code, *(edge for first, last in limits for edge in (first - 1, first, last, last + 1))):
        if 0 <= one <= LAST and not 0xD800 <= one <= 0xDFFF:
            assert matches(pattern, chr(one)) == any(first <= one <= last for first, last in limits), hex(one)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (r"(a)\1", "groupref"),
        ("(?=a)b", "assert"),
        (r"\bcat", "at_boundary"),
        ("(?i)cat", "flags"),
        ("(", "no regular"),
        ("(a{1000}){1000}", "200,000 states"),
        (r"[^\s\S]", "holds none"),
    ],
)  # fmt: skip
def test_what_no_automaton_follows_is_refused(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        hw.Request(prompt="a", regex=expression)


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 4},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"', 3]}, "maxItems": 2},
        "rest": {"$ref": "#/$defs/rest"},
        "when": {"type": "string", "pattern": "^[0-9]{4}-.$"},
    },
    "required": ["name", "tags"],
    "$defs": {"rest": {"anyOf": [{"type": "null"}, {"type": ["number", "boolean"]}]}},
}
GOOD = [
    '{"name": "Zoë", "tags": []}',
    '{"name":"\\n\\u00e9","age":-70,"tags":["a", "b\\""]}',
    '{"name": "a", "tags": [3], "rest": null, "when": "1999-x"}',
    '{"name": "🙂", "tags": [], "rest": -1.5e+10}',
]
BAD = [
    '{"name": "", "tags": []}',
    '{"name": "a"}',
    '{"tags": [], "name": "a"}',
    '{"name": "a", "tags": [3, 3, 3]}',
    "{}",
    '{"name": "abcde", "tags": []}',
    '{"name": "a", "age": 07, "tags": []}',
    '{"name": "a", "tags": [], "when": "1999-""}',
    '{"name": "a", "tags": [],}',
    '{"name": "\n", "tags": []}',
    '{"name": "\\ud83d", "tags": []}',
    '{"name": "a", "tags": ["c"]}',
]


def test_a_schema_takes_what_it_says() -> None:
    pattern = json_schema(json.dumps(PERSON))
    assert [text for text in GOOD if not matches(pattern, text)] == []
    assert [text for text in BAD if matches(pattern, text)] == []
    for text in GOOD:
        json.loads(text)


def test_a_schema_that_leaves_a_value_open_takes_any() -> None:
    pattern = json_schema('{"type": "array", "items": {}}')
    for value in (1, "a", None, True, [], {}, [1, {"a": [2, "x"]}], {"a": {"b": -1.5}}):
        assert matches(pattern, json.dumps([value, value]))
    assert not matches(pattern, "[1, ]") and not matches(pattern, '[{"a" 1}]') and not matches(pattern, "[1")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer", "minimum": 3}, "'minimum'"),
        ({"$ref": "#/$defs/x"}, "to nothing"),
        ({"type": "text"}, "no type"),
        ({"$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}, "$ref": "#/$defs/x"}, "refers to itself"),
        ({"oneOf": []}, "no type"),
        ({"type": "string", "pattern": "a"}, "may match anywhere"),
        ({"minLength": 3}, "no type"),
        ({"type": "object", "properties": 3}, "no JSON schema"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "no array"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "'a' is required"),
        ({"type": "string", "pattern": '^"$'}, "holds none"),
    ],
)  # fmt: skip
def test_what_a_schema_cannot_say_here_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        hw.Request(prompt="a", json_schema=schema)


def sentencepiece() -> Tokenizer:
    """As Llama 2's: spaces are ▁, what is not in the vocabulary is bytes, and one space is dropped at the start."""
    pieces = ["<s>", "▁the", "▁cat", "▁", "{", "}", '"', "a", "b", ":", "▁1", "1", "9", "▁▁"]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *(f"<0x{byte:02X}>" for byte in range(256))])}
    engine = Engine(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<s>"))
    engine.add_special_tokens(["<s>"])
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(engine, {"bos_token": "<s>"})


KINDS = {
    "bpe": lambda: train_tokenizer(TEXTS, TokenizerConfig(kind="bpe", vocabulary=300), task="language"),
    "character": lambda: train_tokenizer(TEXTS, TokenizerConfig(kind="character"), task="language"),
    "sentencepiece": sentencepiece,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_tokens_are_those_of_the_text(kind: str) -> None:
    tokenizer = KINDS[kind]()
    found = TokenBytes(tokenizer)
    for text in TEXTS:
        tokens = tokenizer.encode(text, special=False)
        joined = b"".join(map(found.bytes_of, tokens)).decode()
        assert joined.removeprefix(" ") == tokenizer.decode(tokens) == text


@pytest.mark.parametrize("kind", KINDS)
def test_allowed_tokens_are_those_that_brute_force_finds(kind: str) -> None:
    tokenizer = KINDS[kind]()
    tokens = TokenBytes(tokenizer)
    for pattern in (regex(r"[a-c]+( the| 1\d*)?"), json_schema(json.dumps(PERSON)), regex("(🙂|ü|é)*")):
        allowed = AllowedTokens.of(pattern, tokenizer)
        assert AllowedTokens.of(pattern, tokenizer) is allowed
        for state in (pattern.start, pattern.after(pattern.start, b"a"), pattern.after(pattern.start, b'{"name": "')):
            if state is None:
                continue
            expected = [
                token
                for token in range(tokens.size)
                if tokens.bytes_of(token) and pattern.after(state, tokens.bytes_of(token)) is not None
            ]
            assert allowed.mask(state).nonzero().flatten().tolist() == expected


@pytest.fixture(scope="module")
def made() -> tuple[Any, Tokenizer]:
    tokenizer = KINDS["bpe"]()
    assert tokenizer.end is not None
    model = hw.build("gpt2", layers=2, width=12, heads=3, vocabulary=tokenizer.size, length=256, seed=5, std=0.5).eval()
    model.config = model.config.replace(special=model.config.special.replace(end=(tokenizer.end,)))
    return model, tokenizer


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_generated_text_matches(made: tuple[Any, Tokenizer], temperature: float) -> None:
    model, tokenizer = made
    options: dict[str, Any] = {"tokenizer": tokenizer, "temperature": temperature, "max_new_tokens": 60, "seed": 3}
    date = hw.generate(model, "cat", regex=r"\d{4}-\d{2}-\d{2}", **options)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date.text) and date.finish == "stop"
    person = hw.generate(model, ["the cat", "Zoë: "], json_schema=PERSON, **options)
    for one in person:
        if one.finish == "max_new_tokens":  # a name may be written in many bytes, an age has no end
            assert json_schema(json.dumps(PERSON)).after(0, one.text.encode()) is not None
        else:
            found = json.loads(one.text)
            assert {"name", "tags"} <= found.keys() <= PERSON["properties"].keys() and 1 <= len(found["name"]) <= 4
    # Alone, and beside requests that ask for nothing of the kind.
    asked = {"max_new_tokens": 60, "temperature": temperature, "seed": 3}
    requests = [hw.Request(prompt="x", **asked), hw.Request(prompt="Zoë: ", json_schema=PERSON, **asked)]
    beside = hw.generate(model, requests, tokenizer=tokenizer)
    assert beside[1].tokens == person[1].tokens
    assert beside[0].tokens == hw.generate(model, requests[0], tokenizer=tokenizer).tokens


def test_a_text_may_end_where_its_pattern_does(made: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = made
    assert tokenizer.end is not None
    found = hw.generate(
        model, "cat", tokenizer=tokenizer, regex="a+", logit_bias={tokenizer.end: 100.0}, max_new_tokens=9
    )
    assert set(found.text) == {"a"} and found.finish == "end"
    long = hw.generate(
        model, "cat", tokenizer=tokenizer, regex="a+", logit_bias={tokenizer.end: -100.0}, max_new_tokens=9
    )
    assert set(long.text) == {"a"} and long.finish == "max_new_tokens" and len(long.tokens) == 9


def test_a_pattern_needs_text_and_a_vocabulary_that_can_write_it(made: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = made
    with pytest.raises(ValueError, match="give a tokenizer"):
        hw.generate(model, [5, 7], regex="a")
    words = train_tokenizer(TEXTS, TokenizerConfig(kind="wordpiece", vocabulary=100), task="language")
    with pytest.raises(ValueError, match=r"the decoder of this one \(WordPiece\) changes them"):
        hw.generate(model, [5, 7], regex="a", tokenizer=words)
    with pytest.raises(ValueError, match="no token is left to choose"):
        hw.generate(model, [5, 7], regex="ж", tokenizer=KINDS["character"]())
    with pytest.raises(ValueError, match="leave regex of the request"):
        hw.beam(model, [hw.Request(prompt="a", regex="a")], tokenizer=tokenizer)
    with pytest.raises(ValueError, match="this Request has both"):
        hw.Request(prompt="a", regex="a", json_schema={})


def test_the_command_line(made: tuple[Any, Tokenizer], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer = made
    hw.save(model, tmp_path / "model", tokenizer=tokenizer)
    call = ["generate", str(tmp_path / "model"), "--prompt", "the", "--max-new-tokens", "40"]
    assert main([*call, "--regex", r"(yes|no)!"]) == 0
    assert capsys.readouterr().out.strip() in ("yes!", "no!")
    (tmp_path / "schema.json").write_text('{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}')
    assert main([*call, "--json-schema", str(tmp_path / "schema.json")]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)
    assert main([*call, "--json-schema", '{"enum": [17]}']) == 0
    assert json.loads(capsys.readouterr().out) == 17
    for wrong in (
        ["--regex", "("],
        ["--json-schema", "{"],
        ["--json-schema", "nowhere.json"],
        ["--json-schema", "[1]"],
    ):
        assert main([*call, *wrong]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_constraint_is_quick_with_a_large_vocabulary() -> None:
    """Every state's tokens are found once, and those that share a beginning are tried together."""
    letters = [chr(code) for code in range(97, 123)]
    words = {a + b + c: i for i, (a, b, c) in enumerate((a, b, c) for a in letters for b in letters for c in letters)}
    engine = Engine(models.BPE(words | {"<s>": len(words)}, []))
    engine.decoder = decoders.Fuse()
    tokens = TokenBytes(Tokenizer(engine))
    pattern, tried = regex("b[xyz]."), 0
    before = BytePattern.table

    def counted(self: BytePattern, state: int) -> Any:
        nonlocal tried
        tried += 1
        return before(self, state)

    BytePattern.table = counted
    try:
        assert len(tokens.readable(pattern, pattern.start)) == 3 * 26
    finally:
        BytePattern.table = before
    assert tried < 26 + 26 + 3 * 26 + 30
    assert torch.is_tensor(AllowedTokens(pattern, tokens).mask(pattern.start))
