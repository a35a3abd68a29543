"""How good answers are, in plain numpy: confusion, F1, ranks."""

import numpy as np
from jaxtyping import Float, Int

Classes = Int[np.ndarray, " N"]


def confusion(right: Classes, found: Classes, *, classes: int) -> Int[np.ndarray, "C C"]:
    """How often class i (row) was taken for class j (column).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), classes=2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(right * classes + found, minlength=classes**2).reshape(classes, classes)


def accuracy(table: Int[np.ndarray, "C C"]) -> float:
    """The share of right answers."""
    return float(np.trace(table) / table.sum())


def precision(table: Int[np.ndarray, "C C"]) -> Float[np.ndarray, " C"]:
    """Of what was taken for a class, the share that is of it; 0 where nothing was."""
    return _shares(np.diag(table), table.sum(0))


def recall(table: Int[np.ndarray, "C C"]) -> Float[np.ndarray, " C"]:
    """Of a class, the share that was found; 0 where there is nothing of it."""
    return _shares(np.diag(table), table.sum(1))


def f1(table: Int[np.ndarray, "C C"]) -> Float[np.ndarray, " C"]:
    """2 · precision · recall / (precision + recall) = 2 · hits / (of the class + taken for it)."""
    return _shares(2 * np.diag(table), table.sum(0) + table.sum(1))


def macro_f1(table: Int[np.ndarray, "C C"]) -> float:
    """The mean of F1 over the classes that occur, among the right answers or the given ones.

    >>> macro_f1(np.array([[1, 1], [0, 1]]))
    0.6666666666666666
    """
    return float(f1(table)[table.sum(0) + table.sum(1) > 0].mean())


def ranks(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """1 for the smallest; equal values share the mean of their ranks.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def spearman(first: Float[np.ndarray, " N"], second: Float[np.ndarray, " N"]) -> float:
    """Pearson's correlation of the ranks; NaN where one side never changes.

    >>> spearman(np.array([1.0, 2.0, 5.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    a, b = (ranks(one) - (len(one) + 1) / 2 for one in (first, second))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size else float("nan")


def _shares(part: Int[np.ndarray, " C"], whole: Int[np.ndarray, " C"]) -> Float[np.ndarray, " C"]:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
