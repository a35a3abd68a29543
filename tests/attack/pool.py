"""Processes that try cases: forked from one that has imported everything, with limits of time and memory.

A reader's cases run one after another in a few processes; a command gets a process of its own. One that hangs or dies
is told by its parent, and replaced.
"""

import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.attack import edits

Case = dict[str, Any]
Result = dict[str, Any]  # {"kind": accepted | refused | exception | crash | hang | silent, "text": what was said}
BAD = ("exception", "crash", "hang", "silent")

SECONDS = 12.0  # of computing; a case takes milliseconds
COMPILING = 90.0  # where torch compiles
BLOCKED = 8.0  # without any computing
MEMORY = 3 << 30  # bytes beyond what a process has when it is forked
LARGEST_FILE = 1 << 30
CACHE = "cache"  # of commands, below the base: what this machine can do
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
LONGEST = 3000  # letters of a sentence


def run_load(case: Case, base: Path, own: Path) -> Result:
    """One case of a reader, in this process."""
    from tests.attack.readers import READERS

    reader = READERS[case["reader"]]
    place = own / reader.seed
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(base / "seeds" / reader.seed, place, copy_function=os.link)
    edits.apply(place, case["edits"])
    try:
        found = reader.read(place)
    except BaseException as error:
        return judged(error)
    try:
        wrong = reader.check(place, found)
    except Exception as error:
        wrong = f"read, and the reference refuses it: {type(error).__name__}: {error}"
    return {"kind": "silent" if wrong else "accepted", "text": (wrong or "")[:LONGEST]}


def judged(error: BaseException) -> Result:
    """A sentence of the package's own is a refusal; anything else should not have come so far."""
    from headway.cli.errors import is_mistake

    frames = traceback.extract_tb(error.__traceback__)
    ours = f"{os.sep}headway{os.sep}" in frames[-1].filename
    text = str(error)
    path = isinstance(error, OSError) and is_mistake(error)
    plain = isinstance(error, ValueError) and ours and not isinstance(error, UnicodeError)
    if (plain or path) and text.strip():
        return {"kind": "refused", "text": text}
    where = next((f"{Path(f.filename).name}:{f.name}" for f in reversed(frames) if "/headway/" in f.filename), "?")
    return {"kind": "exception", "where": where, "text": f"{type(error).__name__}: {text}"[:400]}


def run_command(case: Case, base: Path, own: Path) -> Result:
    """One command, in this process, which ends with it."""
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    for place in _named(base / "seeds", case["argv"]):
        shutil.copytree(place, own / place.name)
    edits.apply(own, case["edits"])
    out, err = own / ".stdout", own / ".stderr"
    os.chdir(own)
    sys.path.insert(0, str(own / "code"))
    os.environ["XDG_CACHE_HOME"] = str(base / CACHE)
    _streams(case, out, err)
    try:
        from headway.cli import main

        code: Any = main(case["argv"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    return answered(case, int(code or 0), err.read_text(errors="replace"))


def _named(seeds: Path, words: list[str]) -> list[Path]:
    """The whole directories that a command may mean: to copy all of them takes longer than most commands."""
    places = sorted(seeds.iterdir())
    plain = [word for word in words if not word.startswith("-")]
    if any(word in ("", ".", "..", "/") or "*" in word for word in plain):
        return places
    return [place for place in places if place.name in ("code", "data") or any(place.name in word for word in words)]


def answered(case: Case, code: int, said: str) -> Result:
    """What a command's exit code and its last lines say."""
    lines = [line for line in said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("headway: ")]
    if "Traceback (most recent call last)" in said:
        where = [line.strip() for line in lines if "/headway/" in line]
        return {"kind": "exception", "where": where[-1].rpartition("/")[2] if where else "?", "text": lines[-1][:400]}
    if code == 0 or (code == 1 and case["argv"][0] == "audit") or (code == 141 and case.get("stdout")):
        return {"kind": "accepted", "text": ""}
    if code == 2 and len(told) == 1 and len(told[0]) < LONGEST:
        return {"kind": "refused", "text": told[0]}
    return {
        "kind": "exception",
        "where": "?",
        "text": f"exit code {code}, and stderr ends: {' | '.join(lines[-2:])[:300]}",
    }


STDIN = {"empty": b"", "binary": bytes(range(256)), "lines": b"the cat\na dog\n"}


def _streams(case: Case, out: Path, err: Path) -> None:
    """stdin, stdout and stderr as files, closed, full, or with nobody at the other end."""
    sys.stdout.flush()
    sys.stderr.flush()
    given, wanted = case.get("stdin", "empty"), case.get("stdout", "file")
    (out.parent / ".stdin").write_bytes(STDIN.get(given, b""))
    os.dup2(os.open(out.parent / ".stdin", os.O_RDONLY), 0)
    os.dup2(os.open(err, os.O_RDWR | os.O_CREAT), 2)
    if wanted == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    else:
        os.dup2(os.open("/dev/full" if wanted == "full" else out, os.O_RDWR | os.O_CREAT), 1)
    encoding = {"encoding": "utf-8", "errors": "surrogateescape"}
    sys.stdin = None if given == "closed" else os.fdopen(0, "r", closefd=False, **encoding)  # type: ignore[assignment]
    sys.stdout = None if wanted == "closed" else os.fdopen(1, "w", closefd=False, encoding="utf-8")  # type: ignore[assignment]
    sys.stderr = os.fdopen(2, "w", closefd=False, encoding="utf-8", errors="backslashreplace", buffering=1)
    if given == "closed":
        os.close(0)
    if wanted == "closed":
        os.close(1)


class Worker:
    """A forked process; `send` it a case, and `poll` for the result."""

    def __init__(self, base: Path, number: int) -> None:
        self.base, self.number, self.pid = base, number, 0

    def send(self, number: int, case: Case) -> None:
        command = "argv" in case
        if command:
            self.end()
        if not self.pid:
            self._fork()
        self.case, self.index = case, number
        self.begun = self.moved = time.monotonic()
        self.used = self.first = _computed(self.pid)
        os.write(self.to, (json.dumps(case) + "\n").encode())

    def _fork(self) -> None:
        (theirs, self.to), (self.back, mine) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)  # though it be in an endless loop
                _close(self.to, self.back)
                _work(self.base, self.base / f"w{self.number}", theirs, mine)
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(70)  # and never into the parent's own clean-up
        _close(theirs, mine)

    def finished(self) -> Result | None:
        """The result, where the process has written or ended; None while it is at work."""
        data = b""
        while not data.endswith(b"\n"):
            piece = os.read(self.back, 1 << 16)
            if not piece:
                return self._ended()
            data += piece
        if "argv" in self.case:
            self.end()
        return json.loads(data)

    def _ended(self) -> Result:
        _, status = os.waitpid(self.pid, 0)
        self._close()
        code = os.waitstatus_to_exitcode(status)
        return {"kind": "crash", "where": "?", "text": signal.Signals(-code).name if code < 0 else f"exit code {code}"}

    def late(self) -> Result | None:
        """That it hangs: too much computing, or none for a while."""
        now, used = time.monotonic(), _computed(self.pid)
        if used > self.used + 0.01 or _waits_for_machine(self.pid):
            self.used, self.moved = used, now
        most = COMPILING if "--compile" in self.case.get("argv", ()) else SECONDS
        if used - self.first < most and now - self.moved < BLOCKED:
            return None
        text = "it computes for ever" if used - self.first >= most else "it waits for ever"
        self.end()
        return {"kind": "hang", "where": "?", "text": text}

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._close()

    def _close(self) -> None:
        _close(self.to, self.back)
        self.pid = 0


def _close(*handles: int) -> None:
    for handle in handles:
        os.close(handle)


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _waits_for_machine(pid: int) -> bool:
    """Whether a thread could compute and gets no turn (R), waits for a disk (D), or was stopped from outside (T).

    Of processes that it has started too: a compiler is waited for without any computing of one's own."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        states = {Path(task, "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}
        children = [int(child) for task in tasks for child in Path(task, "children").read_text().split()]
    except OSError:  # a thread, or the process, has just ended
        return True
    return bool({"R", "D", "T"} & states) or any(map(_waits_for_machine, children))


def _computed(pid: int) -> float:
    """Seconds of computing of a process so far."""
    return sum(map(int, _fields(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _work(base: Path, own: Path, reading: int, writing: int) -> None:
    """In the child: cases in, results out, until the parent closes the pipe."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    told = os.open(own.with_suffix(".err"), os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(told, 1)
    os.dup2(told, 2)
    for line in os.fdopen(reading):
        case = json.loads(line)
        result = (run_command if "argv" in case else run_load)(case, base, own)
        os.write(writing, (json.dumps(result) + "\n").encode())
        if "argv" in case:
            os._exit(0)
    os._exit(0)


def results(cases: Iterator[Case], base: Path, workers: int, first: int = 0) -> Iterator[tuple[Case, Result]]:
    """Each case with its result, in the order in which they end; `first` numbers the workers' directories."""
    free = [Worker(base, number) for number in range(first, first + workers)]
    busy: list[Worker] = []
    try:
        numbered, more = enumerate(cases), True
        while more or busy:
            while more and free:
                if (following := next(numbered, None)) is None:
                    more = False
                    break
                free[-1].send(*following)
                busy.append(free.pop())
            for worker, result in _wait(busy):
                busy.remove(worker)
                free.append(worker)
                yield worker.case, result
    finally:
        for worker in [*free, *busy]:
            worker.end()


def _wait(busy: list[Worker]) -> list[tuple[Worker, Result]]:
    with selectors.DefaultSelector() as selector:
        for worker in busy:
            selector.register(worker.back, selectors.EVENT_READ, worker)
        ready = {key.data for key, _ in selector.select(1.0)}
    found = [(worker, worker.finished() if worker in ready else worker.late()) for worker in busy]
    return [(worker, result) for worker, result in found if result is not None]
