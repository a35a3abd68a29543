"""The processes of a run: who this one is, and what it can say to the others.

torchrun starts the processes and tells each its number by environment variables; without them a run is alone. Processes
form a grid of `data_size` rows and `tensor` columns: a row shares one model and one part of the batch, rows differ in
their parts. Everything here is the same for one process, where it costs nothing.
"""

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from headway.config.train import ParallelConfig
from headway.native import build as native

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class World:
    """One process among others. `data_rank` of `data_size` says which part of a batch is its own.

    >>> World().sum([2.0, 3.0]), World().agree(False), World().gather("a")
    ([2.0, 3.0], False, ['a'])
    """

    rank: int = 0
    size: int = 1
    data_rank: int = 0
    data_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    mesh: DeviceMesh | None = None  # axes "data" and "tensor"; None: alone
    again: bool = False  # torchrun has started these processes again, after one was lost

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def tensor_size(self) -> int:
        """Processes that share each layer."""
        return self.size // self.data_size

    def sum(self, values: list[float]) -> list[float]:
        """Each number summed over the parts of the batch, in float64."""
        if self.mesh is None or self.data_size == 1:
            return [float(value) for value in values]
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, group=self.mesh.get_group("data"))
        return total.tolist()

    def sums(self, values: Mapping[str, float]) -> dict[str, float]:
        """The same by name; every process has the same names, in any order."""
        names = sorted(values)
        return dict(zip(names, self.sum([values[name] for name in names]), strict=True))

    def agree(self, flag: bool) -> bool:
        """Whether any process says so: all of them then know, at the same step."""
        if self.size == 1:
            return flag
        said = torch.tensor(int(flag))
        dist.all_reduce(said, op=dist.ReduceOp.MAX)
        return bool(said)

    def share(self, value: Any) -> Any:
        """The first process's value, in every process; for small things."""
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in every process; for small things."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def barrier(self) -> None:
        """Wait for the others."""
        self.agree(False)

    def leave(self) -> None:
        """The end of the run: the others are let go."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join(config: ParallelConfig, environment: Mapping[str, str] = os.environ) -> World:
    """Meet the other processes that torchrun started: gloo between processors, NCCL between GPUs; or be alone."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if "WORLD_SIZE" not in environment or (size := int(environment["WORLD_SIZE"])) == 1:
        return World(data_size=_rows(config, 1), device=device)
    if absent := [name for name in _VARIABLES if name not in environment]:
        raise ValueError(f"WORLD_SIZE is {size}, but {absent[0]} is not set: start the processes with torchrun")
    rows = _rows(config, size)
    if device.type == "cuda":
        device = torch.device("cuda", int(environment["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        store, rank, size = next(rendezvous("env://"))
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        fresh = PrefixStore(agree_on_prefix(store, rank, size), store)
        dist.init_process_group(backend, store=fresh, rank=rank, world_size=size)
    mesh = init_device_mesh(device.type, (rows, config.tensor), mesh_dim_names=("data", "tensor"))
    world = World(dist.get_rank(), size, mesh.get_local_rank("data"), rows, device, mesh)
    # torchrun counts on each machine for itself: one that lost nobody does not know.
    return replace(world, again=world.agree(environment.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"))


def _rows(config: ParallelConfig, size: int) -> int:
    if size % config.tensor:
        raise ValueError(
            f"parallel.tensor {config.tensor} shares each layer among {config.tensor} processes, which do not divide "
            f"the {size} that run: torchrun --nproc-per-node {config.tensor}, or a multiple"
        )
    return size // config.tensor


PAUSE = 0.02


@runtime_checkable
class KeyValueStore(Protocol):
    """What is needed of torch's Store."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: list[str], /) -> bool: ...


def agree_on_prefix(table: KeyValueStore, rank: int, size: int, *, seconds: float = 600.0) -> str:
    """A word that the `size` processes of this attempt share, and no process before them.

    Each of the others says hello with a word just made up, and believes only an answer to that word; the first one
    answers whatever it hears, what is left of dead processes too, until all the others have called it by its own.
    """
    word = uuid4().hex
    if rank:
        table.set(f"hello/{rank}", word)
        found = table.get(f"answer/{rank}/{word}").decode()
        table.set(f"here/{found}/{rank}", "yes")
        return found
    absent, until = list(range(1, size)), time.monotonic() + seconds
    while absent := [other for other in absent if not table.check([f"here/{word}/{other}"])]:
        if time.monotonic() > until:
            raise TimeoutError(f"process {absent[0]} of {size} did not come within {seconds:.0f} seconds")
        for other in absent:
            if table.check([f"hello/{other}"]):
                table.set(f"answer/{other}/{table.get(f'hello/{other}').decode()}", word)
        time.sleep(PAUSE)
    return word


def machine(world: World) -> dict[str, Any]:
    """Versions, threads, instruction set, compiled kernels and processes."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "kernels": native.kind(),
        "device": world.device.type if world.device.type == "cpu" else torch.cuda.get_device_name(world.device),
        "processes": world.size,
        "tensor": world.tensor_size,
    }


def differences(saved: Mapping[str, Any], world: World) -> str | None:
    """One sentence on why a resumed run may differ in its last bits; None where it does not."""
    now = machine(world)
    found = [
        f"{name} {saved[name]} then, {now[name]} now" for name in now if name in saved and saved[name] != now[name]
    ]
    return f"not bit for bit the run that was saved: {'; '.join(found)}" if found else None
