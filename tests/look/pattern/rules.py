"""The rules once more, written out pair by pair from their definitions and with nothing of headway."""

from collections.abc import Callable

import numpy as np

Table = np.ndarray
May = Callable[[int, int], bool]


def table(may: May, queries: range, keys: range) -> Table:
    """Who may attend to whom, by positions."""
    return np.array([[may(i, j) for j in keys] for i in queries], dtype=bool)


def near(window: int, step: int = 1) -> May:
    return lambda i, j: (i - j) % step == 0 and abs(i - j) // step < window


def near_patches(window: tuple[int, int], columns: int, step: int = 1) -> May:
    """Both rows and columns are near; a token before position 0 stands on no grid."""

    def may(i: int, j: int) -> bool:
        if i < 0 or j < 0:
            return False
        down, right = i // columns - j // columns, i % columns - j % columns
        return near(window[0], step)(down, 0) and near(window[1], step)(right, 0)

    return may


def one_of(chosen: tuple[int, ...]) -> May:
    return lambda i, j: i in chosen or j in chosen


def outside(i: int, j: int) -> bool:
    return i < 0 or j < 0


def parted(sizes: tuple[int, ...]) -> May:
    """Both in the same of several stretches."""
    number = [part for part, size in enumerate(sizes) for _ in range(size)]
    return lambda i, j: number[i] == number[j]


def earlier(i: int, j: int) -> bool:
    return j <= i


def everything(i: int, j: int) -> bool:
    return True


def either(*rules: May) -> May:
    return lambda i, j: any(rule(i, j) for rule in rules)


def both(*rules: May) -> May:
    return lambda i, j: all(rule(i, j) for rule in rules)


def tiled(side: tuple[int, int], columns: int) -> May:
    def place(position: int) -> tuple[int, int]:
        return position // columns // side[0], position % columns // side[1]

    return lambda i, j: place(i) == place(j)
