"""Hidden words: 15 % of a text, 80 % of them as [MASK], 10 % as another word, 10 % as they are (arXiv:1810.04805)."""

from dataclasses import dataclass

import numpy as np

from headway.data.batch import IGNORED
from headway.data.tokenizer import Tokenizer

SHARE, MASKED, RANDOM = 0.15, 0.8, 0.1


@dataclass(frozen=True, eq=False)
class Hider:
    """Which token hides a word, and which tokens are words."""

    mask: int
    words: np.ndarray
    is_word: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Hider":
        added = tokenizer.engine.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        mask, others = tokenizer.mask, (tokenizer.begin, tokenizer.end, tokenizer.pad)
        if mask is None:
            raise ValueError("this tokenizer has no token to hide words with: it needs a mask token, such as [MASK]")
        is_word = np.ones(tokenizer.size, dtype=bool)
        is_word[[*special, mask, *(number for number in others if number is not None)]] = False
        return cls(mask, np.flatnonzero(is_word), is_word)

    def __call__(self, tokens: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The tokens with some words hidden, and what stood there (elsewhere a target that no loss looks at)."""
        places = np.flatnonzero(self.is_word[tokens])
        # A share of a word more or less, so that the mean is exact; at least one, or the row would teach nothing.
        count = min(max(1, int(SHARE * len(places) + rng.random())), len(places))
        chosen = rng.permutation(places)[:count]
        fate, other = rng.random(count), self.words[rng.integers(0, len(self.words), count)]
        targets = np.full(len(tokens), IGNORED, dtype=np.int64)
        targets[chosen] = tokens[chosen]
        shown = np.where(fate < MASKED, self.mask, np.where(fate < MASKED + RANDOM, other, tokens[chosen]))
        hidden = tokens.copy()
        hidden[chosen] = shown
        return hidden, targets
