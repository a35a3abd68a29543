"""Text to tokens and back, by the tokenizer that a model was trained with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Engine

from headway.data.files import read_optional, write_json
from headway.data.tokenizer_files import marian_engine, restated, usual, vocabulary_engine

FILE, SETTINGS, NAMES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
# What we call it -> what the files call it.
SPECIAL = {
    "begin": ("bos_token", "cls_token"), "end": ("eos_token", "sep_token"), "pad": ("pad_token",),
    "mask": ("mask_token",),
}  # fmt: skip


class Tokenizer:
    """An engine of the tokenizers library, and which of its tokens have a meaning of their own."""

    def __init__(self, engine: Engine, special: dict[str, str] | None = None) -> None:
        # A file may ask for truncation and padding; whoever batches decides that, not the file.
        engine.no_truncation()
        engine.no_padding()
        self.engine, self.special = engine, special or {}

    @classmethod
    def read(cls, directory: str | Path) -> "Tokenizer | None":
        """From tokenizer.json, or from a vocabulary of GPT-2's, BART's or BERT's kind; None where there is neither."""
        place = Path(directory)
        said = {**read_optional(place / NAMES), **read_optional(place / SETTINGS)}
        engine = _engine(place, said)
        if engine is None:
            return None
        # Switches such as add_bos_token end like the words.
        words = {key: value for key, value in said.items() if key.endswith("_token") and isinstance(value, str | dict)}
        special = {key: _word(value) for key, value in words.items() if value}
        return cls(engine, special or usual(engine))

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
        return self.engine.encode(text, pair, add_special_tokens=special).ids

    def encode_all(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        return [found.ids for found in self.engine.encode_batch_fast(list(texts), add_special_tokens=special)]

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of the tokens; those with a meaning of their own are left out unless asked for."""
        return self.engine.decode(list(tokens), skip_special_tokens=not special)

    def save(self, directory: str | Path) -> None:
        place = Path(directory)
        self.engine.save(str(place / FILE))
        write_json(place / SETTINGS, {"tokenizer_class": "PreTrainedTokenizerFast", **self.special})

    def _number(self, name: str) -> int | None:
        words = (self.special[key] for key in SPECIAL[name] if key in self.special)
        return next((number for word in words if (number := self.engine.token_to_id(word)) is not None), None)


def _word(value: Any) -> str:
    """A special token is written as its text, or as an object with its text in `content`."""
    return str(value["content"]) if isinstance(value, dict) else str(value)


def _engine(place: Path, said: Mapping[str, Any]) -> Engine | None:
    if (place / FILE).exists():
        try:
            return restated(Engine.from_file(str(place / FILE)), said)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{place / FILE} is no tokenizer that can be read: {error}") from None
    if (place / "source.spm").exists():
        return marian_engine(place)
    return vocabulary_engine(place, said)
