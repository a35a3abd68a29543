"""What every configuration of a whole model shares."""

from typing import ClassVar, Literal

from headway.config.base import Frozen
from headway.config.weights import WeightsConfig


class ModelConfig(Frozen):
    """The configuration of a whole model, and what the rest of the package asks of its kind.

    `module` is the class that it configures, imported when a model is made. `reads` says what goes in ("source": a
    source, and a target that follows from it), `writes` whether it produces text, token by token; `tasks` are those
    that it can be trained for, the first where nobody says, and `measures` those that it can be evaluated on. `unit` is
    what one position of its input is called.
    """

    weights: WeightsConfig | None = None  # maps that are stored in fewer bits

    module: ClassVar[str]
    reads: ClassVar[Literal["tokens", "source", "images", "images and tokens", "vectors"]] = "tokens"
    writes: ClassVar[bool] = False
    unit: ClassVar[Literal["token", "patch", "pixel", "vector"]] = "token"
    tasks: ClassVar[tuple[str, ...]] = ()
    measures: ClassVar[tuple[str, ...]] = ()
