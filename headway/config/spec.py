"""The mechanisms, as options: a tagged union of small models.

>>> read_spec({"kind": "local", "window": 4}).window
4
>>> read_spec(Linear(feature="relu").model_dump()) == Linear(feature="relu")
True
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from headway.config.base import Extent, Frozen, Pair, explain, nearest


class Softmax(Frozen):
    """Scaled dot-product attention (arXiv:1706.03762)."""

    kind: Literal["softmax"] = "softmax"


class Linear(Frozen):
    """Scores g(q)·g(k) instead of exp(q·k) (arXiv:2006.16236); `feature` names g, or is a function of one tensor."""

    kind: Literal["linear"] = "linear"
    feature: str | Callable[[Any], Any] = "elu"
    chunk: Annotated[int, Field(ge=1)] = 128


class Local(Frozen):
    """Softmax over near keys; `selected` positions and global tokens (negative positions) see and are seen by all."""

    kind: Literal["local"] = "local"
    window: Extent
    dilation: Extent = 1
    selected: tuple[int, ...] = ()
    global_tokens: bool = False
    grid: Pair | None = None


class Spatial(Frozen):
    """Softmax over both axes of a Y x X grid, whole or in windows that do not overlap."""

    kind: Literal["spatial"] = "spatial"
    grid: Pair
    window: Extent | None = None


class Channel(Frozen):
    """Softmax between channels, summed over positions (DaViT, arXiv:2204.03645); heads are its channel groups."""

    kind: Literal["channel"] = "channel"


class Additive(Frozen):
    """Bahdanau's score, vector · tanh(q + k) (arXiv:1409.0473)."""

    kind: Literal["additive"] = "additive"


Spec = Softmax | Linear | Local | Spatial | Channel | Additive
SPECS: dict[str, type[Spec]] = {
    "softmax": Softmax,
    "linear": Linear,
    "local": Local,
    "spatial": Spatial,
    "channel": Channel,
    "additive": Additive,
}
_ANY_SPEC: TypeAdapter[Spec] = TypeAdapter(Annotated[Spec, Field(discriminator="kind")])


def read_spec(given: "Frozen | str | dict[str, Any]", **options: Any) -> Any:
    """A mechanism's spec from its name and options, from a dict as in JSON, or as it is."""
    if isinstance(given, Frozen):
        return type(given)(**{**given.model_dump(), **options}) if options else given
    if not isinstance(given, str | dict):
        raise ValueError(f"a mechanism is a name ({', '.join(SPECS)}), a spec or a record, not {given!r}")
    fields = {"kind": given, **options} if isinstance(given, str) else {**given, **options}
    kind = fields.get("kind")
    if kind not in SPECS:
        raise ValueError(f"there is no mechanism {kind!r}{nearest(str(kind), SPECS)}; there are {', '.join(SPECS)}")
    try:
        return _ANY_SPEC.validate_python(fields)
    except ValidationError as error:
        raise ValueError(explain(error, str(kind), SPECS[kind].model_fields)) from None
