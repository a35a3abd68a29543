"""Conversations as rows of tokens: what is an answer, by templates with and without tags, and beside transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from headway.config.base import IGNORED
from headway.config.train import DataConfig
from headway.data.instructions import Dialogue, Instructions, conversations, encode_conversation
from headway.data.tokenizer import Tokenizer

TURN = "<|start|>{{ m.role }}\n{{ m.content }}<|stop|>\n"
PLAIN = "{% for m in messages %}" + TURN + "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
TAGGED = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}<|stop|>{% endgeneration %}{% else %}{{ m.content }}<|stop|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
TURNS = (
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3?"},
    {"role": "assistant", "content": "5"}, {"role": "user", "content": "and 7?"},
    {"role": "assistant", "content": "12, I say"},
)  # fmt: skip


def tokenizer(template: str | None) -> Tokenizer:
    """A token for each byte, and two of the template's own."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = Engine(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(["<|start|>", "<|stop|>"])
    return Tokenizer(engine, {"eos_token": "<|stop|>"}, chat_template=template)


def asked_text(words: Tokenizer, messages=TURNS) -> str:
    tokens, asked = encode_conversation(Dialogue("line 1", messages), words)
    return words.decode([token for token, one in zip(tokens, asked, strict=True) if one], special=True)


def test_answers_are_what_follows_the_assistants_turn() -> None:
    assert asked_text(tokenizer(PLAIN)) == "5<|stop|>\n12, I say<|stop|>\n"
    assert asked_text(tokenizer(TAGGED)) == "5<|stop|>12, I say<|stop|>"


def test_beside_transformers() -> None:
    words = tokenizer(TAGGED)
    theirs = PreTrainedTokenizerFast(tokenizer_object=words.engine, chat_template=TAGGED)
    found = theirs.apply_chat_template(
        list(TURNS), tokenize=True, return_dict=True, return_assistant_tokens_mask=True, add_generation_prompt=False
    )
    tokens, asked = encode_conversation(Dialogue("line 1", TURNS), words)
    assert tokens == found["input_ids"]
    assert [int(one) for one in asked] == found["assistant_masks"]


def test_before_an_answer_stands_what_the_model_is_given_when_it_generates() -> None:
    words = tokenizer(PLAIN)
    tokens, asked = encode_conversation(Dialogue("line 1", TURNS), words)
    given = words.apply_chat_template(TURNS[:2])
    assert tokens[: len(given)] == given and asked.index(True) == len(given)


def test_a_special_token_in_a_message_is_text() -> None:
    words = tokenizer(PLAIN)
    messages = ({"role": "user", "content": "say <|stop|>"}, {"role": "assistant", "content": "<|stop|>"})
    tokens, asked = encode_conversation(Dialogue("line 1", messages), words)
    stop = words.engine.token_to_id("<|stop|>")
    assert tokens.count(stop) == 2
    assert words.decode([t for t, one in zip(tokens, asked, strict=True) if one], special=True) == "<|stop|><|stop|>\n"


def test_without_a_template_a_prompt_and_a_response() -> None:
    words = tokenizer(None)
    pair = ({"role": "user", "content": "2 + 3 = "}, {"role": "assistant", "content": "5"})
    assert asked_text(words, pair) == "5<|stop|>"
    with pytest.raises(ValueError, match="no chat template that would write them"):
        encode_conversation(Dialogue("line 1", TURNS), words)


def test_targets_are_answers_alone_and_padding_is_none() -> None:
    words = tokenizer(PLAIN)
    short = Dialogue("line 2", TURNS[:3])
    examples = Instructions([Dialogue("line 1", TURNS), short], words, length=200)
    batch = examples.batch(np.array([0, 1]), np.array([0, 1]))
    targets = batch.inputs["targets"]
    for row, one in enumerate((TURNS, TURNS[:3])):
        real = targets[row][targets[row] != IGNORED].tolist()
        assert words.decode(real, special=True) == asked_text(words, one)
        for place in np.flatnonzero(targets[row].numpy() != IGNORED)[:-1]:
            following = batch.inputs["tokens"][row][place + 1]
            assert targets[row][place] == following
    assert batch.counts["loss"] == int((targets != IGNORED).sum())


class TestFiles:
    @staticmethod
    def read(place: Path, *rows: object, name: str = "data.jsonl", **data: str) -> list[Dialogue]:
        file = place / name
        file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return list(conversations(DataConfig(**data), [str(file)]))

    def test_messages_pairs_and_tables(self, tmp_path: Path) -> None:
        found = self.read(tmp_path, {"messages": list(TURNS)}, {"prompt": "a", "response": "b"})
        assert [len(one.messages) for one in found] == [5, 2]
        (renamed,) = self.read(tmp_path, {"question": "a", "answer": "b"}, prompt="question", response="answer")
        (table,) = self.read(tmp_path, "prompt,response", 'a,"b"', name="data.csv")
        assert renamed.messages == table.messages == found[1].messages

    @pytest.mark.parametrize(
        ("row", "sentence"),
        [
            ({"text": "a"}, "line 1 of .* has neither 'messages' nor 'prompt' and 'response'"),
            ({"messages": []}, "messages are a list of at least one"),
            ({"messages": list(TURNS[:2])}, "no message of the role assistant"),
            ({"prompt": "a", "response": " "}, "has an empty response"),
        ],
    )
    def test_what_is_no_conversation_is_refused(self, tmp_path: Path, row: object, sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            self.read(tmp_path, row)

    def test_what_is_too_long_is_cut_or_refused(self) -> None:
        words, one = tokenizer(PLAIN), Dialogue("line 3", TURNS)
        with pytest.raises(ValueError, match=r"the conversation of line 3 has .* tokens, and the length is 61"):
            Instructions([one], words, length=61)
        assert Instructions([one], words, length=61, cut=True).sizes.tolist() == [62]
        with pytest.raises(ValueError, match="of line 3 no answer is within 7 tokens"):
            Instructions([one], words, length=7, cut=True)

    def test_a_template_that_changes_what_it_has_written_is_refused(self) -> None:
        changing = "{{ messages | length }}" + PLAIN
        with pytest.raises(ValueError, match="mark answers in it by"):
            encode_conversation(Dialogue("line 1", TURNS), tokenizer(changing))
        with pytest.raises(ValueError, match="begins with the assistant"):
            encode_conversation(Dialogue("line 1", TURNS[2:]), tokenizer(PLAIN))
