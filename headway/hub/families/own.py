"""Our own layout: the configuration as it is, tensors under the names that the model gives them."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError

from headway.config import Frozen
from headway.config.kinds import CONFIGS, read_model
from headway.hub.family import Entry, Family, Table
from headway.hub.parts import parts_of
from headway.models import on_meta


def read(config: Mapping[str, Any], names: frozenset[str]) -> Frozen:
    found = config.get("config")
    if not isinstance(found, Mapping) or found.get("kind") not in CONFIGS:
        raise ValueError(f"a headway model has config.kind, one of {', '.join(CONFIGS)}")
    return read_model(found)


def write(config: Frozen) -> dict[str, Any]:
    try:
        said = config.replace(family="headway").model_dump(mode="json")
    except PydanticSerializationError as error:
        raise ValueError(f"this model's configuration cannot be written down: {error}") from None
    return {"model_type": "headway", "architectures": ["headway"], "config": said}


def table(config: Frozen) -> Table:
    return [Entry(name, name) for name in parts_of(on_meta(config))]


FAMILY = Family("headway", read, write, table)
