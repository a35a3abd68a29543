"""Text to tokens and back, by the tokenizer that a model was trained with."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Engine

from headway.config.file_errors import errors_of, errors_of_library, first_line
from headway.config.read_file import read_bytes, read_text
from headway.config.size_limits import LARGE_BYTES
from headway.data.chat import ChatText, Message, SpelledOut, render_chat
from headway.data.files import read_optional, write_json
from headway.data.gguf_file import read_gguf
from headway.data.tokenizer_files import check_engine, marian_engine, restated, usual, vocabulary_engine
from headway.data.tokenizer_gguf import gguf_engine, unreadable

FILE, SETTINGS, NAMES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
TEMPLATE, TEMPLATES, DEFAULT, TOOLS = "chat_template.jinja", "additional_chat_templates", "default", "tool_use"
# What we call it -> what the files call it.
SPECIAL = {
    "begin": ("bos_token", "cls_token"), "end": ("eos_token", "sep_token"), "pad": ("pad_token",),
    "mask": ("mask_token",),
}  # fmt: skip


@contextmanager
def engine_errors() -> Iterator[None]:
    """Around a call of the engine: what it cannot do with its vocabulary is said; arguments of a wrong type are not."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, TypeError, MemoryError):
        raise
    except BaseException as error:  # a plain Exception, or pyo3's PanicException, which is none
        raise ValueError(f"the tokenizer cannot encode or decode this: {first_line(error)}") from error


class Tokenizer:
    """An engine of the tokenizers library, and which of its tokens have a meaning of their own."""

    def __init__(
        self,
        engine: Engine,
        special: dict[str, str] | None = None,
        *,
        chat_template: str | dict[str, str] | None = None,
    ) -> None:
        # A file may ask for truncation and padding; whoever batches decides that, not the file.
        engine.no_truncation()
        engine.no_padding()
        self.engine, self.special = engine, special or {}
        # How a conversation becomes one text, in Jinja's language; where there are several, by name.
        self.chat_template = chat_template

    @classmethod
    def read(cls, directory: str | Path) -> "Tokenizer | None":
        """From tokenizer.json, or from a vocabulary of GPT-2's, BART's or BERT's kind; None where there is neither.

        A GGUF file has its tokenizer in itself; None where headway cannot make it.
        """
        place = Path(directory)
        if place.is_file():
            return cls._of_gguf(place)
        said = {**read_optional(place / NAMES), **read_optional(place / SETTINGS)}
        engine = _engine(place, said)
        if engine is None:
            return None
        # Switches such as add_bos_token end like the words.
        words = {key: value for key, value in said.items() if key.endswith("_token") and isinstance(value, str | dict)}
        special = {key: word for key, value in words.items() if (word := _word(value))}
        with errors_of(place / SETTINGS):
            "".join(special.values()).encode()  # the library takes no half of a character
        return cls(engine, special or usual(engine), chat_template=_templates(place, said.get("chat_template")))

    @classmethod
    def _of_gguf(cls, path: Path) -> "Tokenizer | None":
        metadata = read_gguf(path).metadata
        if unreadable(metadata):
            return None
        try:
            engine, special = gguf_engine(metadata)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        template = metadata.get("tokenizer.chat_template")
        return cls(engine, special, chat_template=template if isinstance(template, str) else None)

    @property
    def size(self) -> int:
        return self.engine.get_vocab_size()

    @property
    def begin(self) -> int | None:
        return self._number("begin")

    @property
    def end(self) -> int | None:
        return self._number("end")

    @property
    def pad(self) -> int | None:
        return self._number("pad")

    @property
    def mask(self) -> int | None:
        return self._number("mask")

    def encode(self, text: str, pair: str | None = None, *, special: bool = True) -> list[int]:
        with engine_errors():
            return self.engine.encode(text, pair, add_special_tokens=special).ids

    def encode_all(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        with engine_errors():
            return [found.ids for found in self.engine.encode_batch_fast(list(texts), add_special_tokens=special)]

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of the tokens; those with a meaning of their own are left out unless asked for."""
        with engine_errors():
            return self.engine.decode(list(tokens), skip_special_tokens=not special)

    def chat_text(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        hidden: SpelledOut | None = None,
    ) -> ChatText:
        """A conversation as the template writes it; `variables` are what it asks for besides, as enable_thinking."""
        return render_chat(
            self._template(with_tools=bool(tools)),
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            variables={**self.special, **(variables or {})},
            hidden=hidden,
        )

    def apply_chat_template(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """The tokens of a conversation, with the options of `chat_text`.

        As in Hugging Face's library, but for a special token that a message spells out: there it is text.
        """
        spelled = SpelledOut.of(self.engine)
        if not spelled.inside((messages, options.get("tools"))):
            return self.encode(self.chat_text(messages, **options).text, special=False)
        text = self.chat_text(messages, **options, hidden=spelled).text
        with engine_errors():
            return spelled.encode(self.engine, text)

    def _template(self, *, with_tools: bool) -> str:
        found = self.chat_template
        if isinstance(found, dict):
            found = found.get(TOOLS if with_tools and TOOLS in found else DEFAULT)
        if found is None:
            raise ValueError(
                "the tokenizer has no chat template, so nobody can say how a conversation becomes a text: give a text "
                "as the prompt, or set tokenizer.chat_template"
            )
        return found

    def save(self, directory: str | Path) -> None:
        place = Path(directory)
        self.engine.save(str(place / FILE))
        found = self.chat_template
        said = [{"name": name, "template": text} for name, text in found.items()] if isinstance(found, dict) else found
        template = {} if said is None else {"chat_template": said}
        write_json(place / SETTINGS, {"tokenizer_class": "PreTrainedTokenizerFast", **self.special, **template})

    def _number(self, name: str) -> int | None:
        words = (self.special[key] for key in SPECIAL[name] if key in self.special)
        return next((number for word in words if (number := self.engine.token_to_id(word)) is not None), None)


def _templates(place: Path, said: Any) -> str | dict[str, str] | None:
    """The templates of a directory: files of their own, or in the settings; several have names."""
    files = {DEFAULT: place / TEMPLATE, **{one.stem: one for one in (place / TEMPLATES).glob("*.jinja")}}
    found = {name: read_text(path) for name, path in files.items() if path.is_file()}
    if not found and isinstance(said, list):
        named = (one for one in said if isinstance(one, dict))
        found = {str(one["name"]): str(one["template"]) for one in named if one.keys() >= {"name", "template"}}
    if not found:
        return said if isinstance(said, str) else None
    return found[DEFAULT] if found.keys() == {DEFAULT} else found


def _word(value: Any) -> str:
    """A special token is written as its text, or as an object with its text in `content`."""
    return str(value.get("content") or "") if isinstance(value, dict) else str(value)


def _engine(place: Path, said: Mapping[str, Any]) -> Engine | None:
    if (place / FILE).exists():
        with errors_of_library(place / FILE, "tokenizer"):
            content = read_bytes(place / FILE, LARGE_BYTES)
            check_engine(content, place / FILE)
            return restated(Engine.from_buffer(content), said)
    if (place / "source.spm").exists():
        return marian_engine(place)
    return vocabulary_engine(place, said)
