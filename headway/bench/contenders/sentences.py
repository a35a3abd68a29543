"""Texts around an encoder that has no such loop of its own: tokenised, sorted by length, batched, pooled, in order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOKENS = 2048  # of a padded batch: of 1,024 to 16,384 the fastest for both libraries on two cores


class SentenceReader:
    """The tokenizer, limit and pooling (mean or cls, then unit length) of a sentence encoder's directory."""

    def __init__(self, directory: str) -> None:
        from tokenizers import Tokenizer

        place = Path(directory)
        self.tokenizer: Any = Tokenizer.from_file(str(place / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_setting(place / "sentence_bert_config.json", "max_seq_length", 512))
        self.first = _setting(place / "1_Pooling" / "config.json", "pooling_mode_cls_token", False)
        self.unit = (place / "2_Normalize").exists() or "Normalize" in (place / "modules.json").read_text()

    def encode(self, texts: list[str], hidden: Callable[[list[list[int]]], Any]) -> Any:
        """One vector a text; `hidden` gives the padded [B, L, D] of rows of tokens, which are about equally long."""
        tokens = [one.ids for one in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(tokens)), key=lambda row: -len(tokens[row]))
        found = None
        while order:
            size = max(1, TOKENS // len(tokens[order[0]]))
            rows, order = order[:size], order[size:]
            vectors = self._pooled(hidden([tokens[row] for row in rows]), [len(tokens[row]) for row in rows])
            if found is None:
                found = np.empty((len(texts), vectors.shape[1]), np.float32)
            found[rows] = vectors
        return found

    def _pooled(self, hidden: Any, lengths: list[int]) -> Any:
        if self.first:
            found = hidden[:, 0]
        else:
            sizes = np.array(lengths)
            keep = (np.arange(hidden.shape[1]) < sizes[:, None]).astype(np.float32)
            found = np.matmul(keep[:, None], hidden)[:, 0] / sizes[:, None].astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True) if self.unit else found


def _setting(path: Path, name: str, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")).get(name, otherwise) if path.exists() else otherwise
