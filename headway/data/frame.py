"""Sentences as BERT reads them: [CLS] first [SEP] second [SEP]."""

from dataclasses import dataclass

import numpy as np

from headway.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Frame:
    """[CLS] first [SEP] second [SEP], of at most `length` tokens."""

    begin: int
    end: int
    pad: int
    length: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, length: int) -> "Frame":
        begin, end = tokenizer.begin, tokenizer.end
        if begin is None or end is None:
            raise ValueError("this tokenizer has no tokens to frame sentences with: it needs [CLS] and [SEP]")
        if length < 8:
            raise ValueError(f"a length of {length} leaves no room for two sentences: at least 8 are needed")
        return cls(begin, end, 0 if tokenizer.pad is None else tokenizer.pad, length)

    def join(self, first: np.ndarray, second: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and types. What is too long loses where it matters least: the first its beginning, the second its end.

        >>> Frame(begin=1, end=2, pad=0, length=8).join(np.array([3, 4, 5]), np.array([6, 7, 8, 9]))[0].tolist()
        [1, 3, 4, 5, 2, 6, 7, 2]
        """
        if second is None:
            tokens = np.concatenate([[self.begin], first[: self.length - 2], [self.end]])
            return tokens.astype(np.int64), np.zeros(len(tokens), dtype=np.int64)
        room = self.length - 3
        mine = min(len(first), max(room - len(second), (room + 1) // 2))
        second = second[: room - mine]
        parts = ([self.begin], first[len(first) - mine :], [self.end], second, [self.end])
        types = np.repeat([0, 1], [mine + 2, len(second) + 1])
        return np.concatenate(parts).astype(np.int64), types
