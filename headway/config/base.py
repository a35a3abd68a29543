"""What every configuration shares: it cannot be changed, knows its keys, and says in one sentence what is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headway.config.size_limits import SIZE

IGNORED = -100  # a target that no loss counts
Size = Annotated[int, Field(ge=1, le=SIZE, strict=True)]
SMALLEST, LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127  # normal numbers of float32, and of bfloat16
Finite = Annotated[float, Field(allow_inf_nan=False)]
Cap = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]  # c of c · tanh(z / c): 0 and inf would make it NaN
Side = Annotated[int, Field(ge=1, le=SIZE)]
Pair = tuple[Side, Side]
Extent = Side | Pair
F = TypeVar("F", bound="Frozen")


def sides(size: Extent) -> Pair:
    """Rows and columns of an extent; one number stands for both.

    >>> sides(3), sides((2, 5))
    ((3, 3), (2, 5))
    """
    return (size, size) if isinstance(size, int) else size


class Frozen(BaseModel):
    """A model that cannot be changed and knows no key but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(explain(error, self.kind_or_name(), option_names(type(self)))) from None

    @classmethod
    def kind_or_name(cls) -> str:
        """How a sentence calls it: a mechanism by its kind, everything else by its class."""
        kind = cls.model_fields.get("kind")
        return cls.__name__ if kind is None or kind.is_required() else str(kind.default)

    def replace(self: F, path: str = "", /, **changes: Any) -> F:
        """The same with some options changed, checked as if it were written anew; `path` names a part of it.

        >>> from headway.config import AttentionConfig, BlockConfig
        >>> block = BlockConfig(attention=AttentionConfig(width=12, heads=3))
        >>> block.replace("attention", heads=6, mechanism="linear").attention.head_width
        2
        """
        first, _, rest = path.partition(".")
        if not first:
            return type(self)(**self._given() | changes)
        inner = self._given().get(first, getattr(self, first, None)) if first in option_names(type(self)) else None
        if not isinstance(inner, Frozen):
            parts = [name for name in option_names(type(self)) if isinstance(getattr(self, name), Frozen)]
            raise ValueError(
                f"{self.kind_or_name()} has no part {first!r}{nearest(first, parts)}; its parts: {', '.join(parts)}"
            )
        return self.replace(**{first: inner.replace(rest, **changes)})

    def _given(self) -> dict[str, Any]:
        """Every option as it was given; what follows from others follows anew."""
        return {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        """What was chosen: options that are as they always are say nothing."""
        for name, field in type(self).model_fields.items():
            if field.is_required() or getattr(self, name) != field.get_default(call_default_factory=True):
                yield field.alias or name, getattr(self, name)

    def unchecked(self: F, **options: Any) -> F:
        """A copy that nobody checks: for sizes that are symbols."""
        fields = {field.alias or name: name for name, field in type(self).model_fields.items()}
        return super().model_copy(update={fields[name]: value for name, value in options.items()})

    def model_copy(self: F, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> F:
        """pydantic's own checks nothing: an update goes by way of `replace`."""
        return self.replace(**update) if update else super().model_copy(deep=deep)  # type: ignore[return-value]


def option_names(model: type[BaseModel]) -> list[str]:
    """The options of a configuration, as one writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def forget_derived(config: Frozen, names: tuple[str, ...]) -> None:
    """Of sizes that follow from others and were given all the same, keep those that say something new.

    So two configurations that mean the same are equal, and what follows goes on following after `replace`.
    """
    for name in names:
        given = getattr(config, f"own_{name}")
        object.__setattr__(config, f"own_{name}", None)
        if given is not None and getattr(config, name) != given:
            object.__setattr__(config, f"own_{name}", given)


def nearest(name: str, known: Any) -> str:
    """A hint at the nearest known name, or nothing.

    >>> nearest("sofmax", ["softmax", "linear"])
    ' (did you mean softmax?)'
    """
    spelled = {str(one).lower(): one for one in known}
    found = get_close_matches(name.lower(), list(spelled), n=1)
    return f" (did you mean {spelled[found[0]]}?)" if found else ""


def explain(error: ValidationError, what: str, known: Any) -> str:
    """The first complaint of pydantic as one sentence that names the option and the value."""
    # A word nobody knows comes first: it is often the misspelt one that something else then misses.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    names = [str(part) for part in first["loc"] if part != what]
    name = names[0] if names else what
    if first["type"] == "extra_forbidden":
        options = ", ".join(option for option in known if option != "kind") or "none"
        return f"{what} has no option {name!r}{nearest(name, set(known) - {'kind'})}; its options: {options}"
    if first["type"] == "missing":
        return f"{what} needs the option {name!r}"
    if first["type"] == "value_error":
        return str(first.get("ctx", {}).get("error", first["msg"]))
    value = repr(first["input"])
    shown = value if len(value) <= 200 else f"{value[:200]}…"
    return f"{what} cannot take {name}={shown}: {first['msg'].lower()}"
