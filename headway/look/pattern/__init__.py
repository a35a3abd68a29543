"""Rules without a model: who may attend to whom under a mechanism or a mask, and what embeddings of positions say."""

from headway.look.pattern.asked import Asked
from headway.look.pattern.draw import look_of
from headway.look.pattern.rule import Rule
from headway.look.pattern.sets import masks, mechanisms, patterns

__all__ = ["Asked", "Rule", "look_of", "masks", "mechanisms", "patterns"]
