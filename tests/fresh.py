"""Models with random weights, ready for use: what most tests begin with."""

from typing import Any

from headway.models import build


def fresh(target: Any, **options: Any) -> Any:
    return build(target, **options).eval()
