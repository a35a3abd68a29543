"""Models: compositions of layers."""

from headway.models.build import KINDS, build, count, make, on_meta, parameters, with_room

__all__ = ["KINDS", "build", "count", "make", "on_meta", "parameters", "with_room"]
