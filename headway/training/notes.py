"""Settings that are taken and change nothing, or less than one would think: a run says so before its first step."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from headway.config.train import OptimConfig, ScheduleConfig, TrainConfig
from headway.training.objectives import TrainingSetup


def settings_without_effect(work: TrainingSetup) -> Iterator[str]:
    """One sentence each."""
    c = work.config
    yield from _schedule(c)
    yield from _special_tokens(work.model.config)
    yield from _dropout(work.model, c.model.dropout)


def _schedule(c: TrainConfig) -> Iterator[str]:
    schedule, optim = c.schedule, c.optim
    if schedule.warmup > c.steps:
        highest = optim.rate * c.steps / schedule.warmup
        yield (
            f"schedule.warmup {schedule.warmup:,} is longer than the run of {c.steps:,} steps: the learning rate rises "
            f"to {highest:.3g} and never gets to optim.rate {optim.rate:g}"
        )
    unread = {
        "schedule.fall": schedule.kind != "wsd" and schedule.fall != ScheduleConfig().fall,
        "schedule.floor": schedule.kind == "constant" and schedule.floor != ScheduleConfig().floor,
        "optim.muon_rate": optim.kind != "muon" and optim.muon_rate != OptimConfig().muon_rate,
    }
    for name, has_none in unread.items():
        if has_none:
            group, other = name.split(".")[0], {"optim": optim.kind, "schedule": schedule.kind}
            yield f"{name} has no effect with {group}.kind {other[group]}"


def _special_tokens(config: Any) -> Iterator[str]:
    """Tokens with a meaning that no tokenizer can write and no model can choose."""
    special, vocabulary = getattr(config, "special", None), getattr(config, "vocabulary", None)
    if special is None or not isinstance(vocabulary, int):
        return
    for name, value in special:
        for token in value if isinstance(value, tuple) else (value,):
            if isinstance(token, int) and token >= vocabulary:
                yield (
                    f"the special token {name} is number {token:,}, outside of the vocabulary of {vocabulary:,}: "
                    "nothing in this run is ever that token"
                )


def _dropout(model: nn.Module, chosen: float | None) -> Iterator[str]:
    """A dropout that is not there, or that stays in evaluation mode: a module of one's own may override `train`."""
    found = [(name, one) for name, one in model.train().named_modules() if isinstance(one, nn.Dropout)]
    if chosen and not found:
        yield f"model.dropout {chosen:g} has no effect: this model has no dropout"
    if silent := [name for name, one in found if one.p and not one.training]:
        yield f"the dropout {silent[0]} has no effect: it stays in evaluation mode while the model is trained"
