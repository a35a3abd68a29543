"""The laws of models: each a sentence and a way to try it. `LAWS` has them in the order of a report."""

from headway.audit.laws.law import Law
from headway.audit.laws.table import LAWS, chosen_laws

__all__ = ["LAWS", "Law", "chosen_laws"]
