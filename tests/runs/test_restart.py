"""A process that is killed takes the others with it; torchrun starts them again, and nothing shows in the result."""

from pathlib import Path

from tests.runs.launch import losses, weights, work_through
from tests.runs.worker import Job


def test_a_killed_worker_is_started_again_and_the_run_ends_the_same(tmp_path: Path) -> None:
    options = {"kind": "fsdp", "save": 5, "steps": 13, "resume": True}
    jobs = [Job(str(tmp_path / "calm"), **options), Job(str(tmp_path / "killed"), kill=8, **options)]
    printed = work_through(jobs, tmp_path / "jobs.json", restarts=1)
    assert (tmp_path / "killed" / "killed").exists() and "exitcode: -9" in printed
    assert losses(tmp_path / "calm") == losses(tmp_path / "killed")
    assert len(losses(tmp_path / "killed")) == 13
    ours, theirs = weights(tmp_path / "calm"), weights(tmp_path / "killed")
    assert all(bool((tensor == theirs[name]).all()) for name, tensor in ours.items())
