"""Python processes of a test's own, without the checks of types that this suite switches on.

They are forked from one process that has imported torch and headway, which takes seconds; a process that must not have
imported them is started by `subprocess` instead.

    done = processes.run(CODE, "an", "argument")      # as `python -c CODE an argument`
    child = processes.headway("train", "book.txt")    # as `python -m headway train book.txt`; a signal may follow
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

HEADWAY = "import sys; from headway.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class Child:
    """A process that was forked; what it writes goes into files."""

    pid: int
    out: Path
    err: Path
    ended: Path
    code: int | None = field(default=None)

    def poll(self) -> int | None:
        """Its exit code, negative after a signal, once it has ended."""
        if self.code is None and self.ended.exists():
            self.code = int(self.ended.read_text())
        return self.code

    def wait(self, seconds: float = 120.0) -> int:
        until = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"it did not end within {seconds} s: {self.stderr}")
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    @property
    def stdout(self) -> str:
        return self.out.read_text()

    @property
    def stderr(self) -> str:
        return self.err.read_text()


class Processes:
    """The process that forks, started when the first child is asked for."""

    def __init__(self, place: Path) -> None:
        self.place, self.numbers = place, count()
        self.server: subprocess.Popen[str] | None = None

    def start(
        self, code: str, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Child:
        """A child that runs the code, as `python -c` would."""
        if self.server is None:
            setting = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads do not outlive a fork
            call = [sys.executable, "-m", "tests.processes"]
            here = Path(
                __file__
            ).parent.parent  # and not where the first test works: its modules are not the children's
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.server = subprocess.Popen(call, env=setting, cwd=here, **pipes)
        assert self.server.stdin is not None and self.server.stdout is not None
        stem = self.place / str(next(self.numbers))
        files = [str(stem.with_suffix(suffix)) for suffix in (".out", ".err", ".ended")]
        wanted = [code, list(arguments), str(cwd or Path.cwd()), {**os.environ, **(environment or {})}, files]
        print(json.dumps(wanted), file=self.server.stdin, flush=True)
        return Child(int(self.server.stdout.readline()), *map(Path, files))

    def run(self, code: str, *arguments: str, **options: Any) -> Child:
        """A child that has ended."""
        child = self.start(code, *arguments, **options)
        child.wait()
        return child

    def headway(self, *arguments: str, **options: Any) -> Child:
        """A child that runs a command."""
        return self.start(HEADWAY, *arguments, **options)

    def close(self) -> None:
        if self.server is not None:
            assert self.server.stdin is not None
            self.server.stdin.close()
            self.server.wait(30)


def without_sync() -> None:
    """Nobody waits for the disk: that is a third of a short run's time, and only a power cut would tell the difference.

    Tests of power cuts (`tests/crash.py`) count the calls, and drop what was not synced.
    """
    os.fsync = lambda handle: None


def serve() -> None:
    """Forks a keeper for each line of stdin, which forks the child and writes down how it ended."""
    import headway.app.train
    import headway.audit
    import headway.cli.train
    import headway.decoding  # noqa: F401

    without_sync()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        reading, writing = os.pipe()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(json.loads(line), writing)
        os.close(writing)
        print(os.read(reading, 20).decode(), flush=True)
        os.close(reading)


def keep(wanted: list[Any], writing: int) -> None:
    code, arguments, cwd, environment, (out, err, ended) = wanted
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        sys.path.insert(0, "")
        for number, path in ((0, os.devnull), (1, out), (2, err)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
        sys.argv = ["-c", *arguments]
        os._exit(result(code))
    os.write(writing, str(child).encode())
    _, status = os.waitpid(child, 0)
    Path(f"{ended}.new").write_text(str(os.waitstatus_to_exitcode(status)))
    os.replace(f"{ended}.new", ended)
    os._exit(0)


def result(code: str) -> int:
    """The exit code of a program, as the interpreter tells it."""
    import traceback

    try:
        exec(compile(code, "<code>", "exec"), {"__name__": "__main__"})
        found: Any = 0
    except SystemExit as end:
        found = end.code
    except BaseException:
        traceback.print_exc()
        found = 1
    if isinstance(found, str):
        print(found, file=sys.stderr)
        found = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(found or 0)


if __name__ == "__main__":
    serve()
