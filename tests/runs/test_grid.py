"""Four processes: two rows of data, each of two that share every layer."""

from pathlib import Path

import torch

from headway.training.parallel import World
from tests.runs.launch import losses, weights, work_through
from tests.runs.worker import Job, run
from tests.thorough import THOROUGH

KINDS = ("ddp", "fsdp")

if THOROUGH:  # two by two; every day two processes share data, and two share layers (test_processes.py)

    def test_data_and_tensor_parallel_together(tmp_path: Path) -> None:
        run(Job(str(tmp_path / "one"), steps=10, save=5), World())
        jobs = [Job(str(tmp_path / kind), kind=kind, tensor=2, steps=10, save=10) for kind in KINDS]
        work_through(jobs, tmp_path / "jobs.json", processes=4)
        for kind in KINDS:
            ours, theirs = torch.tensor(losses(tmp_path / "one")), torch.tensor(losses(tmp_path / kind, rank=3))
            assert (ours - theirs).abs().max() < 1e-5
            whole, parts = weights(tmp_path / "one"), weights(tmp_path / kind)
            assert all((whole[name] - tensor).abs().max() < 1e-5 for name, tensor in parts.items())
            run(Job(str(tmp_path / kind), steps=15, resume=True), World())
        run(Job(str(tmp_path / "one"), steps=15, resume=True), World())
        ends = [torch.tensor(losses(tmp_path / name)[10:]) for name in ("one", *KINDS)]
        assert all((end - ends[0]).abs().max() < 1e-5 for end in ends)
