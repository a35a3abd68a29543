"""Rules without a model: who may attend to whom under a mechanism or a mask, and what embeddings of positions say."""

from headway.look.pattern.options import PatternOptions
from headway.look.pattern.rule import PatternRule, look_of
from headway.look.pattern.rules import rules_of_mask, rules_of_mechanism, rules_of_set

__all__ = ["PatternOptions", "PatternRule", "look_of", "rules_of_mask", "rules_of_mechanism", "rules_of_set"]
