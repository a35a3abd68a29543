"""The README.md beside a saved model: what it is, and how to read it."""

from typing import Any

from headway.models import parameters


def card(model: Any, name: str) -> str:
    """A model card in the layout that model hubs show: metadata first, then a few lines for people."""
    c = model.config
    return f"""---
library_name: headway
tags: [{c.kind}, {c.family}]
---

# {name}

A {c.kind} model in the layout of {c.family}: {parameters(model):,} parameters.

    import headway
    model, tokenizer, receipt = headway.load("{name}")
"""
