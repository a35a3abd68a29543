"""The learning rate over time, as a factor of the highest rate."""

from math import cos, pi

from headway.config.train import ScheduleConfig


def factor_at(config: ScheduleConfig, step: int, steps: int) -> float:
    """The factor of step 0, 1, … of `steps`: it rises linearly for `warmup` steps, and ends at `floor`.

    cosine: floor + (1 - floor) (1 + cos πt) / 2, t from 0 to 1 (arXiv:1608.03983)
    wsd: 1, and over the last `fall` of all steps linearly down to floor (arXiv:2404.06395)

    >>> [factor_at(ScheduleConfig(warmup=2, floor=0.0), step, 5) for step in range(5)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    >>> [factor_at(ScheduleConfig(kind="wsd", warmup=1, floor=0.5, fall=0.4), step, 5) for step in range(5)]
    [1.0, 1.0, 1.0, 0.75, 0.5]
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.kind == "constant":
        return 1.0
    # WSD falls after its last full step, the cosine begins with it.
    first = config.warmup if config.kind == "cosine" else max(config.warmup, steps - round(config.fall * steps)) - 1
    done = min(max((step - first) / max(1, steps - 1 - first), 0.0), 1.0)
    share = (1 + cos(pi * done)) / 2 if config.kind == "cosine" else 1 - done
    return config.floor + (1 - config.floor) * share
