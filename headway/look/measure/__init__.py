"""What is to be said of an attention: how broad it is, how far it reaches, where it looks, and its role."""

from headway.look.measure.layer import held, layer_of, measured
from headway.look.measure.pack import BUDGET, LIMIT
from headway.look.measure.views import ACROSS, GRID, TEXT
from headway.look.roles import HeadRole, role_of, roles_table

__all__ = [
    "layer_of",
    "held",
    "measured",
    "BUDGET",
    "LIMIT",
    "HeadRole",
    "role_of",
    "roles_table",
    "TEXT",
    "ACROSS",
    "GRID",
]
