"""A run as `headway train` leaves it, made by hand: the loss falls, the validation follows, texts get better."""

import json
import math
import random
from pathlib import Path
from typing import Any

import yaml

import headway
from headway.config import Special
from headway.presets.gpt2 import gpt2
from tests.fresh import fresh

MACHINE = {"python": "3.11.2", "torch": "2.13.0+cpu", "threads": 2, "instructions": "AVX512", "device": "cpu"}
HOSTILE = '</script><script>alert("x")</script> & \'"` \x00\x1b[31m 🦉 \u202eשלום'
TEXTS = (
    "\n\nwhe tho rnd",
    " the thing of the wart,\nAnd so",
    " the crown of England,\nAnd let us speak of it.\n\nKING:",
)


def rows(steps: int = 2000, *, every: int = 10, seed: int = 7, best: float = 1.7) -> list[dict[str, Any]]:
    draw, parameters = random.Random(seed), 809_088
    found: list[dict[str, Any]] = [
        {"kind": "start", "time": "2026-11-16T02:00:00", "run": "first", "parameters": parameters, "machine": MACHINE}
    ]
    for step in range(every, steps + 1, every):
        loss = best - 0.15 + 2.5 * math.exp(-step / 260) + draw.gauss(0, 0.05)
        rate = 4e-3 * min(step / 100, 0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
        seconds = round(0.045 * step, 3)
        common = {"step": step, "seconds": seconds}
        found.append(
            {"kind": "train", **common, "loss": loss, "norm": 0.4 + draw.expovariate(9), "rate": rate}
            | {"tokens": 768 * step, "waited": 0.0}
        )
        if step % 200 == 0:
            held = best + 2.3 * math.exp(-step / 240) + 0.06 * max(0, step - 1600) / 400
            more = {"accuracy": 1 - held / 4.2, "perplexity": math.exp(held), "bits_per_byte": held / math.log(2)}
            found.append({"kind": "validation", **common, "loss": held, **more})
            text = TEXTS[min(step // 700, 2)]
            found += [{"kind": "sample", "step": step, "prompt": prompt, "text": text} for prompt in ("KING:\n", "O ")]
            found.append({"kind": "checkpoint", **common, "path": f"checkpoints/step-{step:08d}", "best": step <= 1600})
    return [*found, {"kind": "end", "step": steps, "reason": "finished", "seconds": round(0.045 * steps, 3)}]


CONFIG = {
    "task": "language",
    "data": {"train": ["shakespeare.txt"], "validation": [], "held": 0.1},
    "tokenizer": {"kind": "character", "vocabulary": 4096},
    "model": {"architecture": "gpt", "layers": 4, "width": 128, "heads": 4},
    "optim": {"kind": "adamw", "rate": 0.004, "betas": [0.9, 0.99]},
    "schedule": {"kind": "cosine", "warmup": 100},
    "steps": 2000,
    "batch": 12,
    "length": 64,
    "seed": 0,
}


def make_run(
    runs: Path, name: str = "first", lines: list[dict[str, Any]] | None = None, *, model: bool = False, **config: Any
) -> Path:
    """Make runs/<name> with these lines and, if asked, an exported model; `config` changes its configuration."""
    path = runs / name
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(CONFIG | config, sort_keys=False))
    (path / "machine.json").write_text(json.dumps(MACHINE | {"processes": 1, "seed": 0}))
    found = rows() if lines is None else lines
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    if model:
        sizes = gpt2(width=128, heads=4, layers=4)
        small = sizes.model_copy(update={"vocabulary": 65, "length": 64, "special": Special()})
        headway.save(fresh(small), path / "model")
    return path
