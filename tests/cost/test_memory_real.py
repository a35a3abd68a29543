"""Memory on paper against memory in use: real models, real losses, real steps of training."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import unwrap
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from headway.config.train import OptimConfig
from headway.cost.memory.measured import MeasuredMemory, measured, replayed
from headway.cost.memory.traced import walked
from headway.cost.optimiser import optimiser_state, update_bytes
from headway.cost.setting import Setting
from headway.models.davit import GridBlock
from headway.nn.recompute import forget_activations
from headway.ops.attention.kernels.sdpa import trusted
from headway.training.objectives import Learner, total_loss
from headway.training.optim import Optimizer
from tests.cost.memory_cases import CASES, Case
from tests.fresh import fresh

SAVED, PEAK = 0.01, 0.05  # how far prediction and measurement may be apart
# Slack in half precision: on another processor peaks were 9 to 19 KB higher, perhaps scratch of its products.
SCRATCH = 2**16
THOROUGH = settings().max_examples > 100  # pytest --hypothesis-profile=thorough looks at every case
RARE = {
    "gpt post", "gpt batch norm", "llama neighbours", "llama part", "llama medium", "large softcap", "local dilated",
    "linear groups", "words medium", "t5 gated", "t5 one text", "t5 long", "bart", "one way", "vit windows", "vit near",
    "davit kernel", "bare block", "local both ways", "additive", "llama widths", "softcap long", "linear both ways",
    "deit", "vit padded windows", "classes", "ttic layer", "gpt shared", "vectors shared",
}  # fmt: skip
DAILY = [name for name in CASES if THOROUGH or name not in RARE]
# "sentence" was written when its objective mixed precisions; it is not measured in half precision yet.
HALF = [name for name in CASES if name != "sentence"] if THOROUGH else ["gpt", "llama", "local", "words", "t5"]
# Not tiles: what their blocks hold beside autograd outlives a checkpoint (548,155 bytes predicted, 806,055 measured).
AGAIN = ["gpt dropout", "llama", "words", "marian", "gpt shared"]
AGAIN += ["linear", "t5", "vit", "bart", "albert"] if THOROUGH else []


@dataclass(frozen=True)
class Real:
    """A model and a step as train.training takes it: zero, loss, backward, clip, update."""

    model: nn.Module
    still: tuple[Tensor, ...]
    loss: Callable[[], Tensor]
    step: Callable[[], None]

    def measured(self) -> MeasuredMemory:
        return measured(self.model, self.still, loss=self.loss, step=self.step)


def real_of(case: Case, *, dtype: str = "float32", checkpointing: bool = False) -> Real:
    precision = getattr(torch, dtype)
    model = fresh(case.config, dtype=precision).train()
    inputs = {name: x.to(precision) if name == "x" else x for name, x in case.inputs.items()}
    still = tuple(inputs[name] for name in case.read)
    if checkpointing:
        forget_activations(model)
    learner = Learner(model, case.objective)
    optimizer = Optimizer(list(model.named_parameters()), OptimConfig(), master=dtype == "bfloat16")

    def loss() -> Tensor:
        found = learner(inputs)
        return total_loss(found, {}, dict.fromkeys(found.losses, 7.0))

    def step() -> None:
        optimizer.zero()
        loss().backward()
        optimizer.clip(1.0)
        optimizer.step(1.0)

    return Real(model, still, loss, step)


def compare(case: Case, real: MeasuredMemory, *, dtype: str = "float32") -> None:
    """Without what is there before: weights, the optimiser's state, the batch."""
    setting, slack = replace(case.setting, dtype=dtype), SCRATCH if dtype == "bfloat16" else 0
    still, taught = walked(case.config, setting), walked(case.config, setting, learning=True)
    step = max(taught.peak, update_bytes(case.config, setting, "adamw"))
    assert near(taught.saved, real.saved, SAVED), (taught.saved, real.saved)
    assert near(still.peak, real.peak_forward, PEAK, slack), (still.peak, real.peak_forward)
    assert near(step, real.peak_step, PEAK, slack), (step, real.peak_step)


def near(found: int, real: int, share: float, slack: int = 0) -> bool:
    return abs(found - real) <= share * real + slack


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """A kernel's scratch grows with the threads: one, so that it is the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    # Tried first under inference_mode a kernel counts as one that failed; inside of a checkpoint it spoils that.
    trusted.cache_clear()
    trusted("cpu", torch.float32)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that are checked hold what a call is given till it returns; unchecked, it goes as soon as it is used."""
    monkeypatch.setattr(GridBlock, "_attend", unwrap(GridBlock._attend))


@pytest.mark.parametrize("name", DAILY)
def test_saved_and_peaks_of_every_kind(name: str) -> None:
    case = CASES[name]()
    compare(case, real_of(case).measured())


@pytest.mark.parametrize("name", HALF)
def test_half_precision(name: str) -> None:
    case = CASES[name]()
    compare(case, real_of(case, dtype="bfloat16").measured(), dtype="bfloat16")


@pytest.mark.parametrize("name", AGAIN)
def test_blocks_computed_again(name: str) -> None:
    """Hooks do not see what a checkpoint holds: what is in use after the forward pass tells."""
    case = CASES[name]()
    real, again = real_of(case, checkpointing=True), walked(case.config, case.setting, learning=True, forgets=True)
    real.step()
    kept, peak = replayed(real.loss)[1], replayed(real.step)[0]
    assert near(again.kept, kept, 2 * SAVED), (again.kept, kept)  # positions and masks of a few bytes each are in use
    assert near(again.peak, peak, PEAK), (again.peak, peak)
    assert again.saved < walked(case.config, case.setting, learning=True).saved


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_state_of_the_optimiser(kind: Any, dtype: str) -> None:
    """All but a count of steps for each parameter."""
    case = CASES["gpt"]()
    model = fresh(case.config, dtype=getattr(torch, dtype))
    real = Optimizer(list(model.named_parameters()), OptimConfig(kind=kind), master=dtype == "bfloat16").tensors()
    held = sum(tensor.nbytes for name, tensor in real.items() if not name.endswith("/step"))
    assert optimiser_state(case.config, Setting(dtype=dtype), kind) == held


def test_a_process_holds_at_least_its_tensors() -> None:
    real = real_of(CASES["gpt"]()).measured()
    assert real.rss > real.peak_step > real.saved
    assert real.as_json()["rss"] == real.rss
