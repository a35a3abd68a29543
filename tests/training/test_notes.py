"""Settings that change nothing are told."""

from torch import nn

from headway.config.text import Special
from headway.config.train import ModelChoice, OptimConfig, ScheduleConfig
from headway.training.notes import settings_without_effect
from tests.training.small import config, work


def told(**changed) -> list[str]:
    model = changed.pop("model", None)
    return list(settings_without_effect(work(config(**changed), **({} if model is None else {"model": model}))))


def test_a_run_whose_settings_act_says_nothing() -> None:
    assert told() == []
    assert told(steps=3) == []  # a warm-up of 3 steps gets to the rate with the last


def test_a_warm_up_longer_than_the_run() -> None:
    (note,) = told(steps=6, schedule=ScheduleConfig(warmup=24), optim=OptimConfig(rate=8e-3))
    assert "schedule.warmup 24 is longer than the run of 6 steps: the learning rate rises to 0.002 and" in note


def test_settings_of_another_kind() -> None:
    found = told(
        schedule=ScheduleConfig(warmup=3, kind="constant", floor=0.3, fall=0.7), optim=OptimConfig(muon_rate=1)
    )
    assert found == [
        "schedule.fall has no effect with schedule.kind constant",
        "schedule.floor has no effect with schedule.kind constant",
        "optim.muon_rate has no effect with optim.kind adamw",
    ]


def test_special_tokens_outside_of_the_vocabulary() -> None:
    model = work(config()).model
    model.config = model.config.replace(special=Special(begin=2, end=(1, 50256), pad=13))
    found = told(model=model)
    assert [note.split(",")[0] for note in found] == [
        "the special token end is number 50", "the special token pad is number 13",
    ]  # fmt: skip
    assert "outside of the vocabulary of 13" in found[0]


class Stubborn(nn.Dropout):
    """As a module of one's own may be: always in evaluation mode."""

    def train(self, mode: bool = True) -> "Stubborn":
        return super().train(False)


def test_a_dropout_that_is_not_there_or_stays_silent() -> None:
    model = work(config()).model
    model.stack.blocks[1].dropout = Stubborn(0.3)
    assert told(model=model) == [
        "the dropout stack.blocks.1.dropout has no effect: it stays in evaluation mode while the model is trained"
    ]
    bare = nn.Linear(2, 3)
    bare.config = None  # type: ignore[assignment]
    found = list(settings_without_effect(work(config(model=ModelChoice(dropout=0.2)), model=bare)))
    assert found == ["model.dropout 0.2 has no effect: this model has no dropout"]
