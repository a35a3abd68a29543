"""Laws as assertions, for anybody's test suite: they say nothing, or fail with the counter-example.

from headway.audit import assert_causal
def test_no_peeking():
    assert_causal(MyModel(), vocabulary=100)
"""

from typing import Any

from torch import nn

from headway.adapt.adapter import Adapter
from headway.audit.examination import examine
from headway.audit.laws import LAWS
from headway.audit.report import NOT_APPLICABLE, REFUTED, Report
from headway.audit.text import explain


class Assertion:
    """`assertion(model, adapter=None, **overrides)`: the law could be tried, and holds.

    `overrides` are fields of an Adapter, and quick=False, seed=… as `examine` takes them.
    """

    def __init__(self, law: str, **claims: Any) -> None:
        self.law, self.claims = law, claims
        self.__name__, self.__doc__ = f"assert_{law}", LAWS[law].sentence

    def __call__(self, model: nn.Module, adapter: Adapter | None = None, **overrides: Any) -> None:
        overrides = {"quick": True} | self.claims | overrides
        report = examine(model, adapter, laws=[self.law], **overrides)
        finding = report[self.law]
        if finding.status == REFUTED:
            raise AssertionError(f"{report.target} does not claim {self.law}, and does not keep it: {finding.why}")
        if finding.status == NOT_APPLICABLE:
            raise AssertionError(f"{self.law} could not be tried on {report.target}: {finding.why}")
        _raise(report)


def assert_laws(model: nn.Module, adapter: Adapter | None = None, **overrides: Any) -> Report:
    """Every law that can be tried holds, and at least one can; the report, for whoever wants to read it."""
    overrides = {"quick": True} | overrides
    report = examine(model, adapter, **overrides)
    if not sum(one.trials for one in report):
        reasons = "; ".join(f"{one.law}: {one.why}" for one in report)
        raise AssertionError(f"no law could be tried on {report.target}: {reasons}")
    _raise(report)
    return report


def _raise(report: Report) -> None:
    """Fail with every broken law and its counter-example."""
    sentences = {name: law.sentence for name, law in LAWS.items()}
    overrides = [line for one in report.broken for line in explain(one, sentences, seed=report.seed)]
    if overrides:
        broken = ", ".join(one.law for one in report.broken)
        raise AssertionError("\n".join([f"{report.target}: {broken} broken", *overrides]))


assert_causal = Assertion("causal", causal=True)
assert_padding = Assertion("padding")
assert_quarantine = Assertion("quarantine")
assert_batch = Assertion("batch")
assert_cache = Assertion("cache")
assert_positions = Assertion("positions")
assert_masks = Assertion("masks")
assert_segments = Assertion("segments")
assert_determinism = Assertion("determinism")
assert_dtype = Assertion("dtype")
assert_export = Assertion("export")
assert_norm = Assertion("norm")
assert_finite = Assertion("finite")
assert_empty = Assertion("empty")
