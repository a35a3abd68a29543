"""What a run's numbers depend on besides its configuration: the same of all this gives the same bits."""

import platform
from collections.abc import Mapping
from typing import Any

import torch

from headway.training.world import World


def machine(world: World) -> dict[str, Any]:
    """Versions, threads, instruction set and processes."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
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
