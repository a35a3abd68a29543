"""A run's directory has one writer, and whatever a killed one has left there is told from a living one."""

import json
import os
import platform
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headway.app import resumable_file
from headway.app.resumable_file import ResumableFile
from headway.app.run_recovery import LOCK, open_run
from headway.cli import main
from headway.data import lock as lock_module
from headway.data.lock import InUse, Lock, this_process
from tests.cli.test_train_stop import SETTINGS, reached

LONG = [*SETTINGS[: SETTINGS.index("--steps")], "--steps", "4000", *SETTINGS[SETTINGS.index("--steps") + 2 :]]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text("".join(f"Line {number} of a book that counts to {number * number}.\n" for number in range(400)))
    return file


@pytest.mark.parametrize("second", [["--overwrite"], ["--resume"], []])
def test_a_second_process_is_refused_and_the_first_goes_on(text, tmp_path, capsys, processes, second):
    """Without a lock, the configuration of one stood beside the weights of the other, and rows came twice."""
    run = tmp_path / "run"
    first = processes.headway("train", str(text), *LONG, "--out", str(run))
    reached(run, 2, first)
    before = (run / "config.yaml").read_bytes()
    assert main(["train", str(text), *SETTINGS, "--seed", "5", "--out", str(run), *second]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"{run} is being written by process {first.pid} on {platform.node()}, since 20" in said
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 130
    assert (run / "config.yaml").read_bytes() == before
    steps = [row["step"] for row in map(json.loads, (run / "metrics.jsonl").open()) if row["kind"] == "train"]
    assert steps == list(range(1, len(steps) + 1)) and not (run / LOCK).exists()


def test_two_that_start_at_once(text, tmp_path, processes):
    run = tmp_path / "run"
    both = [processes.headway("train", str(text), *SETTINGS, "--out", str(run), "--seed", str(n)) for n in (1, 2)]
    codes = [one.wait() for one in both]
    assert sorted(codes) == [0, 2]
    seed = codes.index(0) + 1
    assert f"seed: {seed}\n" in (run / "config.yaml").read_text()
    assert json.loads((run / "machine.json").read_text())["seed"] == seed


def test_a_killed_writer_is_not_waited_for(text, tmp_path, processes, capsys):
    run = tmp_path / "run"
    first = processes.headway("train", str(text), *LONG, "--out", str(run))
    reached(run, 8, first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert json.loads((run / LOCK).read_text())["pid"] == first.pid
    assert main(["train", "--out", str(run), "--resume", "--steps", "9"]) == 0
    assert not (run / LOCK).exists()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock_module, "PATIENCE", 0.3)
    monkeypatch.setattr(lock_module, "_MOMENT", 0.05)
    return tmp_path


def left_behind(place: Path, **changed: object) -> None:
    (place / LOCK).write_text(json.dumps(asdict(replace(this_process(), **changed))))


def test_two_in_one_process(place):
    first = open_run(place)
    with pytest.raises(InUse, match=f"process {os.getpid()} on "):
        open_run(place)
    first.release()
    open_run(place).release()
    assert list(place.iterdir()) == []


def test_a_lock_that_another_machine_has_left_is_taken_over_when_it_is_not_touched(place, monkeypatch):
    left_behind(place, host="elsewhere", machine="another", pid=17)
    lock = Lock(place / LOCK, place)
    assert json.loads((place / LOCK).read_text())["pid"] == os.getpid()
    lock.release()

    left_behind(place, host="elsewhere", machine="another", pid=17)
    times = iter(range(1000))
    monkeypatch.setattr(lock_module.time, "sleep", lambda _: os.utime(place / LOCK, ns=(0, next(times))))
    with pytest.raises(InUse, match="process 17 on elsewhere, since"):
        Lock(place / LOCK, place)


def test_the_holder_touches_its_lock(place, monkeypatch):
    monkeypatch.setattr(lock_module, "BEAT", 0.01)
    lock = Lock(place / LOCK, place)
    os.utime(place / LOCK, (0, 0))
    for _ in range(1000):
        if (place / LOCK).stat().st_mtime > 0:
            break
        lock_module.time.sleep(0.01)
    assert (place / LOCK).stat().st_mtime > 0
    lock.release()


def test_a_file_system_without_locks(place, monkeypatch):
    """Then the number and the start of the process decide."""
    monkeypatch.setattr(lock_module, "lock", lambda handle: None)
    left_behind(place, pid=os.getppid(), born=lock_module._born(os.getppid()), since="then")
    with pytest.raises(InUse, match=f"process {os.getppid()} on "):
        Lock(place / LOCK, place)
    left_behind(place, pid=os.getppid(), born="1", since="then")  # another process has its number now
    Lock(place / LOCK, place).release()
    left_behind(place, pid=2**22 + 1, born="1", since="then")  # nobody has
    Lock(place / LOCK, place).release()


def test_a_file_that_was_finished_before_it_was_locked_is_not_written_to(tmp_path, monkeypatch):
    """The second has opened the part; then the first gives it its name, and lets the lock go."""
    out, real = tmp_path / "out.npy", resumable_file.lock
    first = ResumableFile(out, {"input": "a"}, overwrite=False)
    first.begin(b"head")

    def late(handle: int) -> bool | None:
        first.finish()
        first.file.close()
        return real(handle)

    monkeypatch.setattr(resumable_file, "lock", late)
    with pytest.raises(ValueError, match=r"another run has just finished .*out.npy: start this one again"):
        ResumableFile(out, {"input": "a"}, overwrite=False)
    assert out.read_bytes() == b"head" and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 3}'])
def test_a_lock_that_says_nothing_is_taken_over(place, content):
    (place / LOCK).write_text(content)
    Lock(place / LOCK, place).release()
