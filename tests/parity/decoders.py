"""What every decoder has to share with transformers: logits and hidden states, padded or not, in pieces, saved, in two
precisions.

A family's tests are `DecoderParity` with its shapes: `class TestQwen3(DecoderParity): model_type, sizes, shapes = ...`.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM

import headway
from headway.hub.parts import parts_of
from tests.parity.compare import close, far, outputs_of, ragged, shake

V = 53
EXACT = 1e-12  # in float64, in units of the largest value


class Double(TorchFunctionMode):
    """Whatever asks for float32 inside gets float64: transformers takes norms, angles and softmax in float32."""

    def __enter__(self) -> Any:
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(torch.float32)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        wide = {key: _wide(value) for key, value in (kwargs or {}).items()}
        given = tuple(_wide(value) for value in args)
        return given[0].double() if func is torch.Tensor.float else func(*given, **wide)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


class DecoderParity:
    """The tests of one family."""

    model_type: ClassVar[str]
    sizes: ClassVar[dict[str, Any]]
    shapes: ClassVar[dict[str, dict[str, Any]]]
    # Parameters of the last block, by the names of files: a change of any must be noticed.
    noticed: ClassVar[tuple[str, ...]] = ("attention.key", "attention.out", "feedforward.gate", "feedforward_norm")
    tolerance: ClassVar[float] = 1e-5

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        if "shape" in metafunc.fixturenames:
            metafunc.parametrize("shape", list(cls.shapes), scope="class")

    @pytest.fixture(scope="class")
    def pair(self, shape: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
        place = tmp_path_factory.mktemp("theirs")
        other = self.theirs(shape)
        other.save_pretrained(place)
        return other, headway.load(place).model

    def theirs(self, shape: str, **more: Any) -> Any:
        torch.manual_seed(1)
        config = AutoConfig.for_model(self.model_type, **self.sizes | self.shapes[shape] | more)
        other = AutoModelForCausalLM.from_config(config).eval()
        shake(other)
        return other

    def call(self, other: Any, text: Tensor, **more: Any) -> Any:
        """What theirs gives."""
        return other(text, **more)

    @torch.no_grad()
    def test_logits_and_hidden_states(self, pair: Any) -> None:
        other, model = pair
        for text in ragged(V, [2, 31], side="left")[0]:
            self.agree(other, model, text[None], self.tolerance)

    @torch.no_grad()
    def test_the_same_in_float64(self, shape: str, tmp_path: Path) -> None:
        with Double():
            other = self.theirs(shape).double()
        other.save_pretrained(tmp_path)
        model = headway.load(tmp_path).model
        assert next(model.parameters()).dtype == torch.float64
        for text in ragged(V, [3, 29], side="left")[0]:
            self.agree(other, model, text[None], EXACT)

    def agree(self, other: Any, model: Any, text: Tensor, tolerance: float) -> None:
        with Double() if tolerance == EXACT else nullcontext():
            expected = self.call(other, text, output_hidden_states=True)
        assert far(model(text), expected.logits) <= tolerance
        found = outputs_of(model.stack.blocks, lambda: model(text))
        for ours, hidden in zip(found[:-1], expected.hidden_states[1:-1], strict=True):
            assert far(ours, hidden) <= tolerance
        assert far(model.hidden_states(text), expected.hidden_states[-1]) <= tolerance

    @torch.no_grad()
    @pytest.mark.parametrize("side", ["left", "right"])
    def test_padding_changes_nothing(self, pair: Any, side: str) -> None:
        other, model = pair
        texts, tokens, keep = ragged(V, [5, 13, 2], side=side)
        found = model(tokens, keep=keep)
        for row, text in enumerate(texts):
            assert close(found[row][keep[row]], self.call(other, text[None]).logits[0], tolerance=self.tolerance)

    @torch.no_grad()
    @pytest.mark.parametrize(("side", "cache"), [("left", True), ("right", True), ("left", False)])
    def test_a_cache_changes_nothing(self, pair: Any, side: str, cache: bool) -> None:
        """Ragged prompts, then three tokens at once, then one by one: past the window, where there is one."""
        other, model = pair
        texts, tokens, keep = ragged(V, [7, 3, 11], side=side)
        more = torch.randint(0, V, (3, 6), generator=torch.Generator().manual_seed(2))
        session = model.session(cache=cache)
        found = [session.read(tokens, keep), session.read(more[:, :3])]
        found += [session.read(more[:, i : i + 1]) for i in range(3, 6)]
        for row, text in enumerate(texts):
            for ours, after in zip(found, (0, 3, 4, 5, 6), strict=True):
                expected = self.call(other, torch.cat([text, more[row, :after]])[None]).logits[0, -1]
                assert close(ours[row], expected, tolerance=self.tolerance)

    @torch.no_grad()
    def test_what_is_saved_loads_there(self, pair: Any, tmp_path: Path) -> None:
        other, model = pair
        headway.save(model, tmp_path / "ours")
        again, report = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
        tokens = torch.randint(0, V, (2, 13))
        assert type(again) is type(other)
        assert close(self.call(again, tokens).logits, self.call(other, tokens).logits, tolerance=1e-6)
        assert headway.load(tmp_path / "ours").model.config == model.config

    @torch.no_grad()
    def test_the_comparison_can_fail(self, pair: Any) -> None:
        other, model = pair
        text = torch.arange(11)[None]
        expected = self.call(other, text).logits
        parts = parts_of(model)
        last = f"stack.blocks.{len(model.stack.blocks) - 1}"
        for name in self.noticed:
            weight = next(
                parts[f"{last}.{name}.{end}"] for end in ("weight", "offset") if f"{last}.{name}.{end}" in parts
            )
            before = weight.clone()
            weight.view(-1)[5] += 0.3
            assert not close(model(text), expected, tolerance=self.tolerance), name
            weight.copy_(before)
        assert close(model(text), expected, tolerance=self.tolerance)
