"""Audits: the laws of mechanisms (`mechanisms/`), and those of whole models, tried on anybody's.

>>> from headway.audit.mechanisms.laws import LAWS, hold, refute
>>> from headway.audit.mechanisms.trials import trials
>>> from headway.ops.attention import MECHANISMS
>>> hold(MECHANISMS["softmax"], LAWS["rows_sum"], trials("softmax", 3)) < 1e-10
True
>>> refute(MECHANISMS["local"], LAWS["equivariant"], trials("local", 9)) is None
False

For whole models: `examine` gives a report, `assert_causal` and its sisters fit a test suite, an `Adapter` says how a
model is called. They are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.adapt.adapter import Adapter, Reading
    from headway.audit.asserts import (
        assert_batch,
        assert_cache,
        assert_causal,
        assert_determinism,
        assert_dtype,
        assert_empty,
        assert_export,
        assert_finite,
        assert_laws,
        assert_masks,
        assert_norm,
        assert_padding,
        assert_positions,
        assert_quarantine,
        assert_segments,
    )
    from headway.audit.examination import examine
    from headway.audit.report import Finding, Report

__all__ = [
    "Adapter", "Finding", "Reading", "Report", "examine",
    "assert_batch", "assert_cache", "assert_causal", "assert_determinism", "assert_dtype",
    "assert_empty", "assert_export", "assert_finite", "assert_laws", "assert_masks",
    "assert_norm", "assert_padding", "assert_positions", "assert_quarantine", "assert_segments",
]  # fmt: skip

_HOMES = {
    "Adapter": "adapt.adapter", "Reading": "adapt.adapter", "Finding": "audit.report", "Report": "audit.report",
    "examine": "audit.examination",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headway.audit' has no attribute {name!r}")
    return getattr(import_module(f"headway.{_HOMES.get(name, 'audit.asserts')}"), name)
