"""The library peft loads what headway writes, and computes the same."""

from pathlib import Path

import pytest
import torch

from tests.parity.adapter.models import CASES, TOLERANCE, V, logits, made
from tests.parity.compare import close

peft = pytest.importorskip("peft")


@pytest.mark.parametrize("name", CASES)
def test_peft_computes_the_same(name: str, tmp_path: Path) -> None:
    other, model = made(name, tmp_path)
    tokens = torch.randint(0, V, (2, 7))
    before = logits(other, tokens, theirs=True)
    theirs = peft.PeftModel.from_pretrained(other, str(tmp_path / "adapter"), autocast_adapter_dtype=False).eval()
    expected = logits(theirs.double(), tokens, theirs=True)
    assert not close(before, expected, tolerance=1e-3)
    assert close(logits(model, tokens, theirs=False), expected, tolerance=TOLERANCE[name])
