"""Laws as assertions and as a pytest fixture: silent, or a failure that shows the counter-example."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import headway.audit
from headway.audit import Adapter, assert_batch, assert_cache, assert_causal, assert_laws, assert_padding
from headway.audit.laws import LAWS


class Tokenwise(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Embedding(20, 8), nn.Linear(8, 20))


class Mean(Tokenwise):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return super().forward(tokens) + self[0](tokens).mean((1, 2), keepdim=True)


def test_there_is_an_assertion_for_each_law() -> None:
    assert {f"assert_{law}" for law in LAWS} <= set(headway.audit.__all__)
    assert all(callable(getattr(headway.audit, name)) for name in headway.audit.__all__)


def test_a_sound_model_passes_in_silence() -> None:
    assert_causal(Tokenwise())
    assert_batch(Tokenwise())


def test_a_failure_tells_law_tokens_and_module() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_causal(Mean())
    said = str(caught.value)
    assert "causal" in said and "Results before place 1 change with the input at 1" in said
    assert "^ changed" in said and "! result deviates" in said


@pytest.mark.parametrize(("assertion", "why"), [(assert_padding, "no mask"), (assert_cache, "cache")])
def test_what_cannot_be_tried_does_not_pass(assertion: headway.audit.asserts.Assertion, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assertion(Tokenwise())


def test_all_laws_at_once() -> None:
    report = assert_laws(Tokenwise(), Adapter(vocabulary=20, causal=True), laws="causal,batch,segments")
    assert [one.status for one in report] == ["holds", "holds", "not applicable"]
    with pytest.raises(AssertionError, match="no law could be tried"):
        assert_laws(Tokenwise(), laws="padding,cache")


def test_the_model_is_left_as_it_was() -> None:
    model = Tokenwise().train()
    model[1].eval()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    assert_batch(model)
    assert model.training and model[0].training and not model[1].training
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())


SUITE = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))

def test_sound(audit):
    assert audit(model(), laws="causal").holds

def test_sick(audit):
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()
        def forward(self, tokens):
            return self.inner(tokens.flip(1))
    audit(Turned(), vocabulary=20, laws="causal")
"""


def test_the_fixture_is_there_wherever_headway_is_installed(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Results before place" in done.stdout
