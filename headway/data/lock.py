"""One writer at a time: a lock file that says who holds it, and that ends with the process.

The system's own lock (flock) on the file decides; it is released when the process ends, even by `kill -9`. Some shared
file systems know such locks on one machine only, or not at all. So the holder also writes down its process, host and
start, and touches the file every few seconds: a file that another machine has left is taken over when it is not
touched any more.
"""

import json
import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from headway.data.publish import lock, open_lock

BEAT = 4.0  # seconds between two touches
PATIENCE = 2.5 * BEAT  # without a touch: the holder is gone
_MOMENT = 0.5  # in which two that begin at once see one another, where the file system has no locks


class InUse(ValueError):
    """Another process writes there."""


@dataclass(frozen=True)
class Owner:
    """A process: `machine` is where its number means anything, `born` tells it from a later one of the same number."""

    pid: int
    host: str
    machine: str
    born: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


def this_process() -> Owner:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return Owner(os.getpid(), platform.node() or "this host", _machine(), _born(os.getpid()) or "", since)


def _machine() -> str:
    """The running kernel and the space of its process numbers; hosts and containers may share a name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + " " + os.readlink("/proc/self/ns/pid")
    except OSError:
        return platform.node()


def _born(pid: int) -> str | None:
    """When a process was started, in ticks since the machine was; None where there is none, "" where nobody knows."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else ""
    except (OSError, IndexError):
        return ""


class Lock:
    """Held from its making until `release`, or until the process ends; `InUse` names who has it.

    `place` is what the sentence names: what this lock file stands for.
    """

    def __init__(self, path: Path, place: Path) -> None:
        self.path, self.owner = path, this_process()
        self._handle = _acquired(path, place, self.owner)
        self._released = threading.Event()
        threading.Thread(target=self._touch, name="lock", daemon=True).start()

    def _touch(self) -> None:
        while not self._released.wait(BEAT):
            with suppress(OSError):
                os.utime(self._handle)

    def release(self) -> None:
        if self._released.is_set():
            return
        self._released.set()
        if is_same(self._handle, self.path):
            self.path.unlink(missing_ok=True)
        os.close(self._handle)


def _acquired(path: Path, place: Path, owner: Owner) -> int:
    """The open lock file, with the owner in it."""
    while True:
        handle = open_lock(path)
        try:
            alone = lock(handle)
            if alone is False:
                raise _in_use(place, _patiently_read(handle))
            if not is_same(handle, path):  # its last holder has removed it meanwhile
                os.close(handle)
                continue
            before = _read(handle)
            if before is not None and before != owner and not _is_gone(before, owner, handle, locks=alone is True):
                raise _in_use(place, before)
            _write(handle, owner)
            if alone is None:
                time.sleep(_MOMENT)
                if (found := _read(handle)) != owner:
                    raise _in_use(place, found)
        except BaseException:
            with suppress(OSError):
                os.close(handle)
            raise
        return handle


def _in_use(place: Path, owner: Owner | None) -> InUse:
    who = "another process" if owner is None else str(owner)
    return InUse(f"{place} is being written by {who}: wait until it has ended, or choose another place")


def is_same(handle: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def _patiently_read(handle: int) -> Owner | None:
    """Who holds it; whoever has just got it writes a moment later."""
    for _ in range(20):
        if (found := _read(handle)) is not None:
            return found
        time.sleep(0.01)
    return None


def _read(handle: int) -> Owner | None:
    try:
        return Owner(**json.loads(os.pread(handle, 4096, 0)))
    except (ValueError, TypeError, RecursionError):  # empty, or cut in two
        return None


def _write(handle: int, owner: Owner) -> None:
    text = json.dumps(asdict(owner)).encode()
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0)
    os.fsync(handle)


def _is_gone(before: Owner, now: Owner, handle: int, *, locks: bool) -> bool:
    """Whether a process that has left its name is no more."""
    if before.machine == now.machine:
        # A system lock that could be had is held by nobody on this machine.
        return locks or _born(before.pid) not in (before.born, "")
    touched, until = os.fstat(handle).st_mtime_ns, time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(min(0.1, PATIENCE))
        if os.fstat(handle).st_mtime_ns != touched:
            return False
    return True
