"""Our own layout: the configuration as it is, tensors under the names that the model gives them."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headway.config import Frozen, explain
from headway.hub.family import Family
from headway.hub.table import Entry, Table
from headway.models import KINDS, config_class, on_meta


def read(config: Mapping[str, Any], names: frozenset[str]) -> Frozen:
    found = config.get("config")
    if not isinstance(found, Mapping) or found.get("kind") not in KINDS:
        raise ValueError(f"a headway model has config.kind, one of {', '.join(KINDS)}")
    kind = config_class(str(found["kind"]))
    try:
        return TypeAdapter(kind).validate_python(dict(found))
    except ValidationError as error:
        raise ValueError(explain(error, str(found["kind"]), kind.model_fields)) from None


def write(config: Frozen) -> dict[str, Any]:
    return {"model_type": "headway", "architectures": ["headway"], "config": config.model_dump(mode="json")}


def table(config: Frozen) -> Table:
    return [Entry(name, name) for name in dict(on_meta(config).named_parameters())]


FAMILY = Family("headway", read, write, table)
