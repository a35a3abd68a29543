"""Instructions and their answers: a model reads all of a conversation, and learns what the assistant says in it.

A line of JSON has `messages`, a list of {"role", "content"}, or `prompt` and `response`; a table has the last two. The
model's chat template makes one text of it. The text before an answer is what the model is given when it generates, and
is encoded by itself, as it is then.

Preferences have two answers to one prompt, `chosen` and `rejected`: texts or lists of messages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.config.base import IGNORED
from headway.config.read_file import parse_json
from headway.config.train import DataConfig
from headway.data.batch import Batch, Ragged, padded
from headway.data.chat import Message, SpelledOut, check_messages
from headway.data.lines import whole_lines
from headway.data.paths import find_data
from headway.data.source import LONGEST, read_records
from headway.data.stream import name_of
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import literal

ANSWERS = "assistant"


@dataclass(frozen=True)
class Dialogue:
    """Messages, and the words for where they stand."""

    where: str
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """What tells it from others."""
        return "\0".join(f"{one['role']} {one.get('content')}" for one in self.messages)

    @property
    def plain(self) -> tuple[str, str] | None:
        """Prompt and response, where it is nothing else."""
        roles = [one["role"] for one in self.messages]
        return (self.messages[0]["content"], self.messages[1]["content"]) if roles == ["user", ANSWERS] else None


def conversations(data: DataConfig, places: Sequence[str]) -> Iterator[Dialogue]:
    """All conversations of the places."""
    for place in find_data(places):
        if place.file is None:
            raise ValueError(f"{place.name} is a source of text: instructions are files with messages, or with prompt "
                             "and response")  # fmt: skip
        if place.format(data.format) == "jsonl":
            for number, line in whole_lines(place.file, longest=LONGEST):
                if line.strip():
                    yield _of_json(line, f"line {number} of {name_of(place.file)}", data)
        else:
            columns = {"prompt": data.prompt, "response": data.response}
            for one in read_records(place.file, place.format(data.format), columns, LONGEST):
                yield _of_pair(one.fields["prompt"], one.fields["response"], one.where)


def _of_json(line: str, where: str, data: DataConfig) -> Dialogue:
    found = parse_json(line, where)
    if isinstance(found, dict) and data.messages in found:
        messages = found[data.messages]
        try:
            check_messages(messages)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if not any(one["role"] == ANSWERS for one in messages):
            raise ValueError(f"{where} has no message of the role {ANSWERS}, and so nothing to learn")
        return Dialogue(where, tuple(messages))
    if isinstance(found, dict) and isinstance(found.get(data.prompt), str):
        return _of_pair(found[data.prompt], found.get(data.response), where)
    raise ValueError(f"{where} has neither {data.messages!r} nor {data.prompt!r} and {data.response!r}: say with "
                     "data.messages, data.prompt and data.response how they are called")  # fmt: skip


def _of_pair(prompt: str, response: Any, where: str) -> Dialogue:
    for name, text in (("prompt", prompt), ("response", response)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where} has an empty {name}: fill it in, or leave the line out")
    return Dialogue(where, ({"role": "user", "content": prompt}, {"role": ANSWERS, "content": response}))


@dataclass(frozen=True)
class Preference:
    """Two conversations that differ in their last answers, the better one first."""

    chosen: Dialogue
    rejected: Dialogue


def preferences(data: DataConfig, places: Sequence[str]) -> Iterator[Preference]:
    """All preferences of the places: lines of JSON, or tables."""
    for place in find_data(places):
        if place.file is None:
            raise ValueError(
                f"{place.name} is a source of text: preferences are files with prompt, chosen and rejected"
            )
        if place.format(data.format) == "jsonl":
            for number, line in whole_lines(place.file, longest=LONGEST):
                if line.strip():
                    yield _preference(parse_json(line, where := f"line {number} of {name_of(place.file)}"), where, data)
        else:
            columns = {"prompt": data.prompt, "chosen": data.chosen, "rejected": data.rejected}
            for one in read_records(place.file, place.format(data.format), columns, LONGEST):
                yield _preference({columns[name]: text for name, text in one.fields.items()}, one.where, data)


def _preference(found: Any, where: str, data: DataConfig) -> Preference:
    if not isinstance(found, dict) or data.chosen not in found or data.rejected not in found:
        raise ValueError(f"{where} lacks {data.chosen!r} or {data.rejected!r}: say with data.prompt, data.chosen and "
                         "data.rejected how they are called")  # fmt: skip
    # A list of messages may hold the prompt itself.
    prompt = () if found.get(data.prompt) is None else _turns(found[data.prompt], "user", data.prompt, where)
    sides = []
    for name in (data.chosen, data.rejected):
        answer = _turns(found[name], ANSWERS, name, where)
        if not prompt and len(answer) < 2:
            raise ValueError(f"{where} has no {data.prompt!r}, and {name!r} is an answer to nothing")
        if answer[-1]["role"] != ANSWERS:
            raise ValueError(f"{where}: the last message of {name!r} is not the {ANSWERS}'s")
        sides.append(Dialogue(where, (*prompt, *answer)))
    if sides[0].messages == sides[1].messages:
        raise ValueError(f"{where} has the same text as {data.chosen} and as {data.rejected}: leave the line out")
    return Preference(*sides)


def _turns(given: Any, role: str, name: str, where: str) -> tuple[Message, ...]:
    """A text as a message of the role; or messages as they are."""
    if isinstance(given, str):
        if not given.strip():
            raise ValueError(f"{where} has an empty {name}: fill it in, or leave the line out")
        return ({"role": role, "content": given},)
    try:
        check_messages(given)
    except ValueError as error:
        raise ValueError(f"{where}: {name}: {error}") from None
    return tuple(given)


def encode_conversation(one: Dialogue, tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them an answer has: by the chat template, or without one a prompt and a response."""
    if tokenizer.chat_template is not None:
        return _templated(one, tokenizer)
    if one.plain is None:
        raise ValueError(f"{one.where} has messages, and the tokenizer has no chat template that would write them: "
                         "give prompt and response, or a model with a template")  # fmt: skip
    words = literal(tokenizer)
    prompt, response = words.encode(one.plain[0]), words.encode(one.plain[1], special=False)
    answer = response if tokenizer.end is None else [*response, tokenizer.end]
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)


def _templated(one: Dialogue, tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    spelled = SpelledOut.of(tokenizer.engine)
    inside = spelled.inside(list(one.messages))
    hidden = spelled if inside else None
    found = tokenizer.chat_text(one.messages, add_generation_prompt=False, hidden=hidden)
    spans = list(found.answers) or list(_spans(one, found.text, tokenizer, hidden))
    tokens: list[int] = []
    asked: list[bool] = []
    place = 0
    for start, end in [*spans, (len(found.text), len(found.text))]:
        for text, answer in ((found.text[place:start], False), (found.text[start:end], True)):
            some = spelled.encode(tokenizer.engine, text) if inside else tokenizer.encode(text, special=False)
            tokens += some
            asked += [answer] * len(some)
        place = end
    return tokens, asked


def _spans(one: Dialogue, text: str, tokenizer: Tokenizer, hidden: SpelledOut | None) -> Iterator[tuple[int, int]]:
    """From where to where answers stand: what the template writes after the beginning of the assistant's turn."""
    for number, message in enumerate(one.messages):
        if message["role"] != ANSWERS:
            continue
        if number == 0:
            raise ValueError(f"{one.where} begins with the {ANSWERS}, who answers nobody: begin with a user's message")
        before = tokenizer.chat_text(one.messages[:number], add_generation_prompt=True, hidden=hidden).text
        after = tokenizer.chat_text(one.messages[: number + 1], add_generation_prompt=False, hidden=hidden).text
        if not (text.startswith(after) and after.startswith(before)):
            raise ValueError(
                f"the chat template writes the conversation of {one.where} otherwise once it goes on, so that nobody "
                f"can say which part of it is the answer: mark answers in it by {{% generation %}}"
            )
        yield len(before), len(after)


class Instructions:
    """Examples of conversations, each a row that is padded at its end; answers alone are targets."""

    def __init__(
        self,
        found: Sequence[Dialogue],
        tokenizer: Tokenizer,
        *,
        length: int,
        cut: bool = False,
    ) -> None:
        """Of a conversation with more than `length` tokens the end is cut off, or it is refused."""
        if not found:
            raise ValueError("there are no conversations in the data: it is empty")
        rows = [self._row(one, tokenizer, length, cut) for one in found]
        self._tokens = Ragged.of([tokens for tokens, _ in rows])
        self._asked = Ragged.of([asked for _, asked in rows], dtype=np.uint8)
        self._pad = 0 if tokenizer.pad is None else tokenizer.pad

    @staticmethod
    def _row(one: Dialogue, tokenizer: Tokenizer, length: int, cut: bool) -> tuple[list[int], list[bool]]:
        tokens, asked = encode_conversation(one, tokenizer)
        if len(tokens) > length + 1 and not cut:
            raise ValueError(
                f"the conversation of {one.where} has {len(tokens)} tokens, and the length is {length}: raise "
                "`length`, or set `data.cut` to cut such conversations"
            )
        tokens, asked = tokens[: length + 1], asked[: length + 1]
        if not any(asked[1:]):
            raise ValueError(f"of {one.where} no answer is within {length} tokens: raise `length`, or leave it out")
        return tokens, asked

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def sizes(self) -> np.ndarray:
        return self._tokens.lengths

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}: B x L each; what is no answer is no target."""
        some = [(self._tokens[row].astype(np.int64), self._asked[row] > 0) for row in rows.tolist()]
        read = [tokens[:-1] for tokens, _ in some]
        targets = [np.where(asked[1:], tokens[1:], IGNORED) for tokens, asked in some]
        inputs = {"tokens": padded(read, self._pad), "targets": padded(targets, IGNORED)}
        return Batch(inputs, {"loss": sum(int((one != IGNORED).sum()) for one in targets)})


class Preferences:
    """Examples of preferences: the chosen conversations of a batch, then the rejected ones, as rows of one tensor."""

    def __init__(self, found: Sequence[Preference], tokenizer: Tokenizer, *, length: int, cut: bool = False) -> None:
        if not found:
            raise ValueError("there are no preferences in the data: it is empty")
        sides = [[one.chosen for one in found], [one.rejected for one in found]]
        self._rows = Instructions([one for side in sides for one in side], tokenizer, length=length, cut=cut)
        self._count = len(found)

    def __len__(self) -> int:
        return self._count

    @property
    def sizes(self) -> np.ndarray:
        return self._rows.sizes[: self._count] + self._rows.sizes[self._count :]

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}: 2B x L each."""
        both = np.concatenate([rows, rows + self._count])
        return Batch(self._rows.batch(both, np.concatenate([keys, keys])).inputs, {"loss": len(rows)})
