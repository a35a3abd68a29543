"""How much memory a run may still take, looked at now and then: it stops with its state saved before it is killed."""

import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

EVERY = 16  # steps between two looks; one takes some 50 µs
LEAST = 96 * 2**20  # bytes that saving a checkpoint and ending take, with room to spare
_GROUPS = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Bytes that this process may still take: of the machine, of its control groups, of its own limit.

    None where the system does not say.
    """
    found = [left for left in (_of_machine(), *map(_of_group, _groups()), _of_limit()) if left is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo") as file:
            found = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":") for line in file)}
        return found["MemAvailable"] + found.get("SwapFree", 0)
    except (OSError, KeyError, ValueError):
        return None


def resident() -> int:
    """Bytes of memory that this process has taken."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


@cache
def _groups() -> tuple[tuple[Path, str, str], ...]:
    """Control groups with a limit, this process's own and those above it: directory, and names of limit and usage."""
    try:
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return ()
    found = []
    for _, kinds, path in rows:
        if kinds == "":
            top, names = _GROUPS, ("memory.max", "memory.current")
        elif "memory" in kinds.split(","):
            top, names = _GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        inner = top / path.lstrip("/")
        above = [one for one in (inner, *inner.parents) if one.is_relative_to(top)]
        found += [(one, *names) for one in above if (one / names[0]).exists()]
    return tuple(found)


def _of_group(group: tuple[Path, str, str]) -> int | None:
    """What is left of a group's limit; pages of files that the system may drop are not counted as used."""
    path, limit, usage = group
    try:
        most = (path / limit).read_text().strip()
        if most == "max" or int(most) >= 2**60:  # as the first version says "none"
            return None
        stat = dict(line.split() for line in (path / "memory.stat").read_text().splitlines())
        dropped = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
        return int(most) - int((path / usage).read_text()) + dropped
    except (OSError, ValueError):
        return None


def _of_limit() -> int | None:
    """What `ulimit -v` leaves."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    try:
        return most - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return None


@dataclass
class MemoryWatch:
    """Whether a run would be out of memory before long.

    Growth counts when it goes on: the first steps, or the first validation, take memory that later ones use again.
    """

    look: Callable[[], int | None] = available
    taken: Callable[[], int] = resident
    steps: int = 0
    sizes: list[int] = field(default_factory=list)  # at the last three looks

    def problem(self) -> str | None:
        """Called once a step; a sentence when it is time to stop."""
        self.steps += 1
        if self.steps % EVERY != 1:
            return None
        self.sizes = [*self.sizes, self.taken()][-3:]
        grown = min((after - before for before, after in pairwise(self.sizes)), default=0) if self._is_known else 0
        left = self.look()
        if left is None or left >= LEAST + 2 * max(grown, 0):
            return None
        return (
            f"memory is running out: {max(left, 0) / 2**20:,.0f} MiB are left, and {EVERY} steps took "
            f"{max(grown, 0) / 2**20:,.0f} MiB: choose a smaller batch or length, or more memory"
        )

    @property
    def _is_known(self) -> bool:
        return len(self.sizes) == 3
