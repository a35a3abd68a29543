"""Examples for language models: windows over a stream of tokens, or documents packed so that none sees another.

`Strided` windows are for measuring: every token but the first is predicted once, with a long context."""

from functools import cached_property

import numpy as np
import torch

from headway.config.base import IGNORED
from headway.data.batch import Batch
from headway.data.shards import TokenView


class Windows:
    """Stretches of `length` tokens, each to be predicted from those before it.

    Window i begins at token i · length; while learning, at a random one of the `length` tokens from there, so that
    every epoch cuts the text elsewhere. With `shift=False` windows stand side by side and the last one is filled up:
    every token but the first is predicted once.
    """

    def __init__(self, view: TokenView, length: int, *, shift: bool = True, name: str = "the data") -> None:
        if view.total < length + 1:
            raise ValueError(
                f"{name} has {view.total} tokens, and one window needs {length + 1}: give more text, or a length "
                f"below {max(view.total, 1)}"
            )
        self.view, self.length, self.shift = view, length, shift

    def __len__(self) -> int:
        targets = self.view.total - 1
        return targets // self.length if self.shift else -(-targets // self.length)

    @property
    def sizes(self) -> None:
        return None

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}: B x L each; what is past the end of the data is no target."""
        starts, last = rows * self.length, self.view.total - self.length - 1
        if self.shift:
            starts = starts + keys % self.length
        late = np.maximum(starts - last, 0)
        found = self.view.gather(starts - late, self.length + 1)
        tokens, targets = found[:, :-1].copy(), found[:, 1:].copy()
        if not self.shift and late.any():
            tokens, targets = _moved(tokens, late, 0), _moved(targets, late, IGNORED)
        inputs = {"tokens": torch.from_numpy(tokens), "targets": torch.from_numpy(targets)}
        return Batch(inputs, {"loss": targets.size - (0 if self.shift else int(late.sum()))})


def _moved(rows: np.ndarray, by: np.ndarray, filler: int) -> np.ndarray:
    """Rows moved to the left, with a filler behind them.

    >>> _moved(np.array([[1, 2, 3], [4, 5, 6]]), np.array([0, 2]), 9).tolist()
    [[1, 2, 3], [6, 9, 9]]
    """
    places = np.arange(rows.shape[1]) + by[:, None]
    inside = places < rows.shape[1]
    return np.where(inside, np.take_along_axis(rows, np.where(inside, places, 0), axis=1), filler)


class PackedDocuments:
    """Documents, cut into pieces of at most `length` tokens, one after the other in a single row.

    A piece is predicted from the token before it (the end of the document before, or the last token of the piece
    before) and from itself. Where the tokenizer has no end token, the first token of a document is only looked at.
    """

    def __init__(self, view: TokenView, length: int, *, name: str = "the data") -> None:
        self.view, self.length = view, length
        if not len(self):
            raise ValueError(f"{name} has {view.total} tokens, and nothing in it can be predicted: give more text")

    def __len__(self) -> int:
        return len(self._pieces[0])

    @property
    def sizes(self) -> None:
        """Nothing is padded, so nothing is gained when similar lengths meet."""
        return None

    @cached_property
    def _pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the targets of each piece begin and end."""
        starts = self.view.documents
        stops = np.append(starts[1:], self.view.total)
        # Of the document that the view cuts through, what is inside; and no target without a token before it.
        starts, stops = np.append(0, starts), np.append(starts[:1] if len(starts) else self.view.total, stops)
        ended = self.view.shards.manifest["end"] is not None
        starts = np.maximum(starts, 1) if ended else starts + 1
        number = np.maximum(-(-(stops - starts) // self.length), 0)
        first = np.repeat(starts - np.cumsum(np.append(0, number[:-1])) * self.length, number)
        first = first + np.arange(number.sum()) * self.length
        return first, np.minimum(first + self.length, np.repeat(stops, number))

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}: 1 x T, {lengths}: of the pieces, shortest first, so that equal ones are neighbours."""
        first, last = (place[rows] for place in self._pieces)
        order = np.argsort(last - first, kind="stable")
        found = [self.view.read(int(first[row]) - 1, int(last[row])).astype(np.int64) for row in order]
        tokens, targets = (np.concatenate([one[part] for one in found]) for part in (slice(-1), slice(1, None)))
        inputs = {"tokens": tokens[None], "targets": targets[None], "lengths": (last - first)[order]}
        return Batch({name: torch.from_numpy(value) for name, value in inputs.items()}, {"loss": targets.size})


class Strided:
    """Windows of `length` tokens that begin every `stride` tokens; all but the first ask for their last `stride` only.

    With stride = length they stand side by side, and the first tokens of each are predicted from little. A smaller
    stride gives every token at least length - stride tokens before it, and takes length / stride times as long.
    """

    sizes = None

    def __init__(self, view: TokenView, length: int, *, stride: int | None = None) -> None:
        if view.total < 2:
            raise ValueError(f"there is nothing to predict in a text of {view.total} tokens: give more text")
        self.view, self.length = view, min(length, view.total - 1)
        self.stride = self.length if stride is None else min(stride, self.length)
        if self.stride < 1:
            raise ValueError(f"a stride is at least 1, not {stride}")

    def __len__(self) -> int:
        return 1 + -(-(self.view.total - 1 - self.length) // self.stride)

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """{tokens, targets}; the last window ends with the data, and asks for what no other has."""
        starts = np.minimum(rows * self.stride, self.view.total - 1 - self.length)
        found = self.view.gather(starts, self.length + 1)
        tokens, targets = found[:, :-1].copy(), found[:, 1:].copy()
        # Window r - 1 has asked for all targets before r · stride - stride + length.
        asked = np.where(rows == 0, 0, (rows - 1) * self.stride + self.length - starts)
        targets[np.arange(self.length) < asked[:, None]] = IGNORED
        inputs = {"tokens": torch.from_numpy(tokens), "targets": torch.from_numpy(targets)}
        return Batch(inputs, {"loss": int((targets != IGNORED).sum())})
