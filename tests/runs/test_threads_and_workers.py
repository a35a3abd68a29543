"""One model in four threads, and in workers that are forked or spawned: everybody gets what one alone gets."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import headway as hw
from headway.config.text import SentenceConfig
from headway.presets.bert import bert
from tests.attack.seeds import pairs, pieces
from tests.processes import Processes
from tests.thorough import THOROUGH

ROUNDS = 400 if THOROUGH else 8  # of seven jobs, in four threads
NAN_POSITION = 29  # its embedding holds NaN: a pass that reads it runs again, with care
Job = Callable[[], Any]


@pytest.fixture(scope="module")
def language() -> Any:
    torch.manual_seed(7)
    tokenizer = pairs()
    model = hw.build("gpt2", width=12, heads=2, layers=2, vocabulary=tokenizer.size, length=32)
    model.tokenizer = tokenizer
    with torch.no_grad():
        model.positions.weight[NAN_POSITION] = float("nan")
    return model.double().eval()


def jobs(model: Any) -> dict[str, Job]:
    """What is asked of the model at the same time, each with a result of its own."""
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, 250, (3, 11), generator=generator)
    spoilt = torch.randint(0, 250, (2, NAN_POSITION + 2), generator=generator)
    keep = torch.arange(11) < torch.tensor([[11], [4], [7]])

    def logits(given: Tensor, **rest: Any) -> Tensor:
        with torch.no_grad():
            found = model(given, **rest)
        return found if isinstance(found, Tensor) else found.logits

    def gradients() -> list[Tensor]:
        found = model(tokens)
        found = found if isinstance(found, Tensor) else found.logits
        return list(torch.autograd.grad(found.square().mean(), list(model.parameters())[1:5]))

    def text(**options: Any) -> Any:
        return hw.generate(model, "the cat", max_new_tokens=5, **options)

    return {
        "a pass": lambda: logits(tokens),
        "another length": lambda: logits(tokens[:1, :3]),
        "padding": lambda: logits(tokens, keep=keep),
        "a careful pass": lambda: logits(spoilt),
        "gradients": gradients,
        "a text": lambda: text(),
        "a drawn text": lambda: text(temperature=1.0, seed=5),
    }


def same(one: Any, other: Any) -> bool:
    """Texts are equal; numbers are, up to the rounding of a careful pass, which another thread may have asked for."""
    if isinstance(one, list | tuple) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Tensor):
        return bool(torch.allclose(one, other, rtol=1e-10, atol=1e-12, equal_nan=True))
    return one == other


def test_four_threads_on_one_model(language: Any) -> None:
    found = jobs(language)
    alone = {name: job() for name, job in found.items()}
    assert not alone["a pass"].isnan().any() and alone["a careful pass"].isnan().any()
    order = [name for _ in range(ROUNDS) for name in found]
    Random(11).shuffle(order)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda name: found[name](), order))
    wrong = [name for name, result in zip(order, results, strict=True) if not same(alone[name], result)]
    assert wrong == []


WORKERS = """
import sys
from pathlib import Path

import torch

import headway as hw

torch.set_num_threads(2)
place, methods, count = Path(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3])


class Texts(torch.utils.data.Dataset):
    # A model and its tokenizer in every worker: pickled where it is spawned, shared where it is forked.
    def __init__(self, loaded):
        self.model, self.tokenizer = loaded.model, loaded.tokenizer

    def __len__(self):
        return 7

    def __getitem__(self, number):
        text = f"a dog runs {number} times"
        return torch.tensor(self.tokenizer.encode(text)[:5]), torch.as_tensor(hw.embed(self.model, text)).squeeze(0)


if __name__ == "__main__":
    texts = Texts(hw.load(place))
    alone = [texts[number] for number in range(len(texts))]
    torch.randn(500, 500) @ torch.randn(500, 500)  # the threads of this process are at work before it forks
    for _ in range(count):
        for method in methods:
            loader = torch.utils.data.DataLoader(
                texts, batch_size=None, num_workers=2, multiprocessing_context=method, timeout=300
            )
            for one, other in zip(alone, loader, strict=True):
                assert torch.equal(one[0], other[0])
                torch.testing.assert_close(one[1], other[1], rtol=1e-6, atol=1e-6)
    print("the same")
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, tokenizer = tmp_path_factory.mktemp("encoder") / "model", pieces()
    inner = bert(width=12, heads=2, layers=1, hidden=19, vocabulary=tokenizer.size, length=32, words=False)
    hw.save(hw.build(SentenceConfig(encoder=inner, limit=16)), place, tokenizer=tokenizer)
    return place


def test_forked_workers_compute_the_same(encoder: Path, processes: Processes) -> None:
    done = processes.run(WORKERS, str(encoder), "fork", str(20 if THOROUGH else 1))
    assert (done.code, done.stdout) == (0, "the same\n"), done.stderr[-3000:]


if THOROUGH:  # every spawned worker imports torch, which takes seconds

    def test_spawned_workers_compute_the_same(encoder: Path, tmp_path: Path) -> None:
        """From a script, which a spawned worker imports again."""
        script = tmp_path / "workers.py"
        script.write_text(WORKERS)
        call = [sys.executable, str(script), str(encoder), "spawn", "3"]
        setting = {**os.environ, "PYTHONPATH": str(Path(hw.__file__).parents[1])}
        done = subprocess.run(call, capture_output=True, text=True, timeout=1200, check=False, env=setting)
        assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr[-3000:]
