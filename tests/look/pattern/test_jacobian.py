"""Pictures of a softmax: the numbers are those of the equation, also where it is saturated."""

import numpy as np
import pytest

from headway.look.pattern.figures import Curves, Heat, softmax_plots


def test_the_textbooks_scores() -> None:
    weights, jacobian, growing, by_width = softmax_plots((-3.0, 1.0, 100.0, 5.0, -1.0)).parts
    assert isinstance(weights, Heat) and weights.values[0, 2] == 1.0
    assert isinstance(jacobian, Heat) and f"{jacobian.values[2, 2]:.5e}" == "5.63774e-42"
    assert isinstance(growing, Curves)
    (_, factors, largest), (_, _, norms) = growing.series
    assert factors[0] == 0.0 and largest[0] == pytest.approx(0.2) and largest[-1] > 0.9999
    assert norms[0] == pytest.approx(np.sqrt(4) / 5) and norms[-1] < 1e-4, "saturated: it no longer answers"
    assert isinstance(by_width, Curves)
    (_, widths, plain), (_, _, scaled) = by_width.series
    assert plain[0] < 0.02 and plain[-1] > 0.5 and (np.diff(plain) > -0.02).all(), "in probability, not always"
    assert plain[-1] < 1.0 and scaled.max() < 0.02 and len(widths) == len(plain)


def test_the_jacobian_is_the_derivative() -> None:
    z, step = np.array([0.3, -1.1, 0.7]), 1e-6
    jacobian = softmax_plots(tuple(z)).parts[1]
    assert isinstance(jacobian, Heat)

    def softmax(scores: np.ndarray) -> np.ndarray:
        return np.exp(scores) / np.exp(scores).sum()

    for at, row in enumerate(np.eye(3) * step):
        slope = (softmax(z + row) - softmax(z - row)) / (2 * step)
        np.testing.assert_allclose(jacobian.values[:, at], slope, atol=1e-9)


@pytest.mark.parametrize("scores", [(), (1.0,), (1.0, float("inf")), (0.0,) * 65])
def test_what_is_no_row_of_scores_is_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="2 to 64 finite scores"):
        softmax_plots(scores)


def test_equal_scores_never_decide() -> None:
    growing = softmax_plots((2.0, 2.0)).parts[2]
    assert isinstance(growing, Curves) and growing.series[0][2] == pytest.approx(0.5)
