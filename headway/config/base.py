"""What every configuration shares: it cannot be changed, knows its keys, and says in one sentence what is wrong."""

from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Size = Annotated[int, Field(ge=1, strict=True)]
Pair = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
Extent = Annotated[int, Field(ge=1)] | Pair


def sides(size: Extent) -> Pair:
    """Rows and columns of an extent; one number stands for both.

    >>> sides(3), sides((2, 5))
    ((3, 3), (2, 5))
    """
    return (size, size) if isinstance(size, int) else size


class Frozen(BaseModel):
    """A model that cannot be changed and knows no key but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise ValueError(explain(error, self.kind_or_name(), type(self).model_fields)) from None

    @classmethod
    def kind_or_name(cls) -> str:
        """How a sentence calls it: a mechanism by its kind, everything else by its class."""
        kind = cls.model_fields.get("kind")
        return cls.__name__ if kind is None else str(kind.default)


def nearest(name: str, known: Any) -> str:
    """A hint at the nearest known name, or nothing.

    >>> nearest("sofmax", ["softmax", "linear"])
    ' (did you mean softmax?)'
    """
    found = get_close_matches(name.lower(), list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


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
    return f"{what} cannot take {name}={first['input']!r}: {first['msg'].lower()}"
