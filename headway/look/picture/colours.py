"""Numbers as colours that readers without colour vision tell apart too: lightness falls steadily with what is shown."""

import numpy as np
from jaxtyping import Float, UInt8

SEQUENTIAL = ("#ffffff", "#dce7fa", "#94b8f0", "#3f7fe0", "#164aa6", "#0a2557")  # 0 … 1
DIVERGING = ("#6e3300", "#c65d07", "#f4b978", "#fafafa", "#9dbff2", "#1c5fd4", "#0a2557")  # −1 … 1
ALLOWED, NOT_ALLOWED = "#1c4fae", "#e9ecf1"


def sequential(values: Float[np.ndarray, "y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """From 0 (white) to 1 (dark).

    >>> sequential(np.array([[0.0, 1.0]])).tolist()
    [[[255, 255, 255], [10, 37, 87]]]
    """
    return _between(values, SEQUENTIAL)


def diverging(values: Float[np.ndarray, "y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """From −1 (brown) through 0 (white) to 1 (blue).

    >>> diverging(np.array([[-1.0, 0.0, 1.0]])).tolist()
    [[[110, 51, 0], [250, 250, 250], [10, 37, 87]]]
    """
    return _between((values + 1) / 2, DIVERGING)


def _between(places: Float[np.ndarray, "y x"], colours: tuple[str, ...]) -> UInt8[np.ndarray, "y x 3"]:
    """The colour at each place from 0 to 1 along a row of colours."""
    points = np.linspace(0, 1, len(colours))
    channels = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], dtype=np.float64)
    mixed = [np.interp(places, points, channels[:, one]) for one in range(3)]
    return np.rint(np.stack(mixed, axis=-1)).astype(np.uint8)
