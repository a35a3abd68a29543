"""Models that claim not to know places, or differences of places only, and know more."""

from collections.abc import Callable

from torch import Tensor, nn

from tests.audit.twins.encoder import BOTH_WAYS, Encoder
from tests.audit.twins.mixers import Shift
from tests.audit.twins.plain import CAUSAL, GPT, Attention, Rotated, rotate
from tests.audit.twins.twin import Build, Twin, made


class OnlyQueries(Rotated):
    """Queries are turned, keys are not: what is left of the position is absolute."""

    def turned(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return rotate(q, self.angles(positions)), k, v


def a_set(attention: Callable[[int], nn.Module] = Attention, learned: bool = False) -> Build:
    return made(lambda: Encoder(attention=attention, learned=learned), **BOTH_WAYS, equivariant=True)


def relative(attention: Callable[[int], nn.Module] = Rotated, learned: bool = False) -> Build:
    build = lambda: GPT(attention=attention, learned=learned)  # noqa: E731
    return made(build, **CAUSAL, shifts=True, positions="position_ids")


ATTENTION = "blocks.0.attention"

TWINS = [
    Twin("a-set-with-places", "", "positions", "places", a_set(learned=True), a_set()),
    Twin("a-set-with-neighbours", "", "positions", ATTENTION, a_set(Shift), a_set(), frozenset({"masks"})),
    Twin("relative-and-absolute", "", "positions", "places", relative(learned=True), relative()),
    Twin("only-queries-turned", "", "positions", ATTENTION, relative(OnlyQueries), relative()),
]
