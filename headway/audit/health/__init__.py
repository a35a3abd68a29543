"""The saturation doctor: how attention fares while a model runs, what is wrong, why, and what to change."""

from headway.audit.health.record import Depth, Head, Health, Logits, Symptom
from headway.audit.health.run import diagnose

__all__ = ["Depth", "Head", "Health", "Logits", "Symptom", "diagnose"]
