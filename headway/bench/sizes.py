"""The sizes that training steps are measured in."""

from dataclasses import dataclass

from headway.config import LanguageConfig, Special
from headway.presets.gpt2 import gpt2


@dataclass(frozen=True)
class GPTSize:
    """A model and a batch."""

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    length: int

    @property
    def config(self) -> LanguageConfig:
        return gpt2(
            width=self.width, layers=self.layers, heads=self.heads, vocabulary=self.vocabulary, length=self.length,
            dropout=0.0, special=Special(),
        )  # fmt: skip

    @property
    def shape(self) -> str:
        return f"{self.layers} layers of {self.width}, V {self.vocabulary}, batch {self.batch} x {self.length}"


SIZES = {
    "characters": GPTSize("GPT on characters", 4, 128, 4, 65, 12, 64),
    "subwords": GPTSize("GPT on subwords", 6, 256, 8, 8192, 8, 128),
    "medium": GPTSize("GPT of 12 M", 6, 384, 6, 4096, 8, 256),
}
