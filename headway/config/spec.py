"""The options of the mechanisms: one small frozen model each, with the name of the mechanism in `kind`.

>>> read_spec({"kind": "local", "window": 4}).window
4
>>> read_spec(Linear(feature="relu").model_dump()) == Linear(feature="relu")
True

A mechanism of one's own has its spec beside it, in one file; its `kind` says where: `package.module:RECORD`. Such a
spec is written to JSON and read back wherever that module can be imported.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import Field

from headway.config.base import Extent, Frozen, Pair, nearest
from headway.config.importing import import_named, split_name

MECHANISMS = "headway.ops.attention"  # the module whose table MECHANISMS holds a record for every name


class Spec(Frozen):
    """The options of a mechanism. `kind` is its name in MECHANISMS, or `package.module:RECORD` of one's own."""

    kind: str

    @property
    def layout(self) -> Pair | None:
        """The grid on which its positions stand; None for a sequence."""
        return None

    @property
    def fills_layout(self) -> bool:
        """Whether every position of its grid has to be there."""
        return False

    @property
    def knows_outside(self) -> bool:
        """Whether tokens at negative positions, outside of the sequence, see and are seen by all."""
        return False

    def check_layout(self, grid: Pair, extra: int) -> None:
        """Refuse tokens on this grid with `extra` tokens beside it, where the mechanism stands on another."""
        if self.layout is not None and self.layout != grid:
            raise ValueError(f"the patches stand on a grid of {grid}, and the attention is for {self.layout}")


class Softmax(Spec):
    """Scaled dot-product attention (arXiv:1706.03762)."""

    kind: Literal["softmax"] = "softmax"


class Linear(Spec):
    """Scores g(q)·g(k) instead of exp(q·k) (arXiv:2006.16236); `feature` names g, or is a function of one tensor."""

    kind: Literal["linear"] = "linear"
    feature: str | Callable[[Any], Any] = "elu"
    chunk: Annotated[int, Field(ge=1)] = 128


class Local(Spec):
    """Softmax over near keys; `selected` positions and global tokens (negative positions) see and are seen by all."""

    kind: Literal["local"] = "local"
    window: Extent
    dilation: Extent = 1
    selected: tuple[int, ...] = ()
    global_tokens: bool = False
    grid: Pair | None = None

    @property
    def layout(self) -> Pair | None:
        return self.grid

    @property
    def knows_outside(self) -> bool:
        return self.global_tokens

    def check_layout(self, grid: Pair, extra: int) -> None:
        super().check_layout(grid, extra)
        if self.grid is not None and extra and not self.global_tokens:
            raise ValueError("the class token stands beside the grid and would see nothing: global_tokens=True")


class Spatial(Spec):
    """Softmax over both axes of a Y x X grid, whole or in windows that do not overlap."""

    kind: Literal["spatial"] = "spatial"
    grid: Pair
    window: Extent | None = None

    @property
    def layout(self) -> Pair | None:
        return self.grid

    @property
    def fills_layout(self) -> bool:
        return True

    def check_layout(self, grid: Pair, extra: int) -> None:
        super().check_layout(grid, extra)
        if extra:
            raise ValueError("spatial attention has no place beside the grid: class_token=False, pooling='mean'")


class Channel(Spec):
    """Softmax between channels, summed over positions (DaViT, arXiv:2204.03645); heads are its channel groups."""

    kind: Literal["channel"] = "channel"


class Additive(Spec):
    """Bahdanau's score, vector · tanh(q + k) (arXiv:1409.0473)."""

    kind: Literal["additive"] = "additive"


# The specs that need no torch to be read; those of other mechanisms stand beside their records.
SPECS: dict[str, type[Spec]] = {
    "softmax": Softmax,
    "linear": Linear,
    "local": Local,
    "spatial": Spatial,
    "channel": Channel,
    "additive": Additive,
}


def read_spec(given: "Spec | str | dict[str, Any]", **options: Any) -> Any:
    """A mechanism's spec from its name and options, from a dict as in JSON, or as it is."""
    if isinstance(given, Spec):
        return given.replace(**options) if options else given
    if not isinstance(given, str | dict):
        raise ValueError(f"a mechanism is a name ({', '.join(SPECS)}, package.module:RECORD) or a spec, not {given!r}")
    fields = {"kind": given, **options} if isinstance(given, str) else {**given, **options}
    if "kind" not in fields:
        raise ValueError(f"{given} names no mechanism: give it a kind, one of {', '.join(SPECS)}")
    return spec_class(str(fields["kind"]))(**fields)


def spec_class(kind: str) -> type[Spec]:
    """The class of the options of a mechanism: by its name, or of the record that `package.module:RECORD` names."""
    if kind in SPECS:
        return SPECS[kind]
    named = split_name(kind)
    if named is not None:
        try:
            record = import_named(*named)
        except ValueError as error:
            raise ValueError(f"the attention {kind} is somebody's own, and its file is needed: {error}") from None
        spec = getattr(record, "spec", None)
        if not (isinstance(spec, type) and issubclass(spec, Spec)):
            raise ValueError(f"{kind} is a {type(record).__name__}, not the record of a mechanism")
        return spec
    table = import_module(MECHANISMS).MECHANISMS
    if kind not in table:
        raise ValueError(f"there is no mechanism {kind!r}{nearest(kind, table)}; there are {', '.join(table)}")
    return table[kind].spec
