"""Models with one bug each, and the same models without it: what every law of an audit is tried on."""

from tests.audit.twins import (
    cache,
    causal,
    chance,
    company,
    digits,
    foreign,
    own,
    padding,
    places,
    saving,
    torch_layers,
    translate,
)
from tests.audit.twins.twin import Twin

THEMES = (causal, padding, cache, translate, company, digits, chance, saving, places, torch_layers, foreign, own)
TWINS: list[Twin] = [twin for theme in THEMES for twin in theme.TWINS]
