"""Models: compositions of layers."""

from headway.models.build import build, count, make, on_meta, parameters, with_room

__all__ = ["build", "count", "make", "on_meta", "parameters", "with_room"]
