"""The saturation doctor: how attention fares while a model runs, what is wrong, why, and what to change."""

from headway.audit.health.diagnose import diagnose
from headway.audit.health.record import Depth, Head, Health, Logits, Symptom

__all__ = ["Depth", "Head", "Health", "Logits", "Symptom", "diagnose"]
