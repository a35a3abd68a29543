"""Whether two hosts have learned what one process learns: the last part of two_hosts.sh."""

import sys
from pathlib import Path

import torch

from headway.training.distributed import World
from tests.runs.launch import losses, weights
from tests.runs.worker import Job, run

NEAR = 1e-5


def main(place: Path) -> None:
    run(Job(str(place / "one")), World())
    apart = 0.0
    for kind in ("ddp", "fsdp", "tensor"):
        seen = [torch.tensor(losses(place / kind, rank), dtype=torch.float64) for rank in (0, 1)]
        alone = torch.tensor(losses(place / "one"), dtype=torch.float64)
        assert seen[0].equal(seen[1]), f"{kind}: the hosts differ from one another"
        loss = float((seen[0] - alone).abs()[:, 0].max())
        ours, theirs = weights(place / kind), weights(place / "one")
        weight = max(float((ours[name] - theirs[name]).abs().max()) for name in theirs)
        print(f"{kind:6}  {len(alone)} steps, losses within {loss:.1e} and weights within {weight:.1e} of one process")
        apart = max(apart, loss, weight)
    if apart >= NEAR:
        sys.exit(f"two hosts are {apart:.1e} away from one process, and {NEAR:.0e} is allowed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
