"""What the works on language models share: the model, its prompts, its sizes, and whether a contender computes it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.bench.agree import Disagreement, deviation
from headway.bench.model_files import random_model
from headway.bench.run import Bench
from headway.config import LanguageConfig, Special
from headway.hub.load import load
from headway.models.language import Language
from headway.presets import preset

PRESET, LENGTH = "gpt2", 2304  # positions: room for the longest prompt
BYTES = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "int8": 1.0,
    "int4": 0.625,
}  # of a weight; int4 with a scale and a minimum for 32 of them
# Of logits, relative to the largest: a wrong mask or scale is far beyond. llama.cpp's GELU is a table in float16.
TOLERANCE = {"float32": 2e-3, "bfloat16": 5e-2, "int8": 5e-2, "int4": 0.4}


@dataclass(frozen=True)
class LanguageFiles:
    """A language model on disk, and itself in float32, which judges what the contenders give."""

    directory: Path
    name: str

    @cached_property
    def model(self) -> Any:
        found = load(self.directory, dtype="float32").model
        if not isinstance(found, Language):
            raise ValueError(f"{self.directory} holds no language model: decode, prefill and load need one")
        return found

    @property
    def length(self) -> int:
        return self.model.config.length

    @cached_property
    def weights(self) -> int:
        """Weights that every step reads: all but the tables of which it looks up a row."""
        tables = [self.model.positions.weight.numel()] if self.model.config.positions == "learned" else []
        tables += [] if self.model.config.tied else [self.model.tokens.weight.numel()]
        return sum(one.numel() for one in self.model.parameters()) - sum(tables)

    @cached_property
    def head(self) -> int:
        return self.model.tokens.weight.numel()

    def prompts(self, count: int, length: int) -> list[list[int]]:
        draw = torch.Generator().manual_seed(3)
        return torch.randint(2, self.model.config.vocabulary - 1, (count, length), generator=draw).tolist()

    def check(self, prompts: list[list[int]], new: int, precision: str) -> Callable[[Any], None]:
        """Refuses a contender whose logits are not the model's, or whose tokens are not the likeliest."""
        expected = self._logits(prompts[0], 0)[-1]
        tolerance = TOLERANCE[precision]

        def judge(contender: Any) -> None:
            gap = deviation(torch.as_tensor(np.array(contender.ask("logits", prompts[0]))), expected)
            if not gap <= tolerance:
                raise Disagreement(f"its logits deviate by {gap:.2g}, at most {tolerance:.2g} is allowed")
            texts = contender.ask("generate", prompts, new)
            if [len(text) for text in texts] != [new] * len(prompts):
                raise Disagreement(f"it gave {[len(text) for text in texts]} tokens, and {new} each were asked for")
            worst = max(self._regret(prompt, text) for prompt, text in list(zip(prompts, texts, strict=True))[:4])
            if not worst <= tolerance:
                raise Disagreement(f"a token's logit is {worst:.2g} below the likeliest, at most {tolerance:.2g}")

        return judge

    @torch.inference_mode()
    def _logits(self, tokens: list[int], start: int) -> torch.Tensor:
        return self.model.logits(self.model.hidden_states(torch.tensor([tokens]))[0, start:])

    def _regret(self, prompt: list[int], text: list[int]) -> float:
        """By how much a chosen token was not the likeliest, relative to the largest logit; 0: greedy throughout."""
        logits = self._logits([*prompt, *text[:-1]], len(prompt) - 1)
        chosen = logits.gather(1, torch.tensor(text)[:, None])[:, 0]
        return float((logits.max(1).values - chosen).max() / logits.abs().max())


def language_files(run: Bench) -> LanguageFiles:
    """The user's own model, or GPT-2 124M with random weights, with room for the longest prompt."""
    if run.target is not None:
        return LanguageFiles(Path(run.target), Path(run.target).name)
    config = preset(PRESET)
    assert isinstance(config, LanguageConfig)
    wide = config.replace(length=LENGTH, special=Special())
    return LanguageFiles(random_model(wide, run.place / PRESET), "GPT-2 124M")
