"""`headway bench predict`: the seconds that a price promises, beside the seconds that a model takes.

The figure is the prediction, its peer the measurement, so that the ratio is predicted / measured; the aim is a factor
of 1.3 either way. The machine's rates are those that `headway cost --machine` keeps; where there are none yet they are
measured first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from headway.bench.measure import Timing, compare
from headway.bench.row import Row, Target, timed
from headway.bench.run import Bench
from headway.bench.sizes import SIZES, GPTSize
from headway.bench.training_steps import headway_step
from headway.config import Frozen, LanguageConfig, Special
from headway.config.base import sides
from headway.cost.compose import price_tree
from headway.cost.op_tree import lines
from headway.cost.setting import Setting
from headway.cost.time import predict
from headway.cost.time.machine import Machine, measure, stored
from headway.models import build
from headway.presets import preset

FACTOR = 1.3
TARGET = Target(f"within {FACTOR} x", at_least=1 / FACTOR, at_most=FACTOR)
SMALL = SIZES["characters"]
WIDER = replace(SMALL, name="GPT of width 256", width=256, heads=8)
GPT2 = GPTSize("GPT-2 124M", 12, 768, 12, 50257, 1, 128)
PRECISIONS = ("float32", "bfloat16")
T5 = Setting(length=16, source=64)


@dataclass(frozen=True)
class PredictionCase:
    """A model, what is asked of it, and the call that does it."""

    name: str
    config: Frozen
    setting: Setting
    phase: str
    call: Callable[[], object]

    @property
    def shape(self) -> str:
        setting, kind = self.setting, self.config.kind_or_name()
        if kind == "vision":
            return f"batch {setting.batch}"
        held = f" after {setting.past}" if setting.past else ""
        source = f", source {setting.source_length}" if kind == "seq2seq" else ""
        return f"batch {setting.batch} x {setting.length}{held}{source}"


def prefill(run: Bench) -> Iterator[Row]:
    """A prompt through a language model, up to the logits of what follows."""
    for size, length in ((SMALL, 64), (GPT2, 128), *(() if run.quick else ((GPT2, 512),))):
        config = _language(size)
        model, tokens = build(config).eval(), _tokens(config.vocabulary, 1, length)
        call = partial(_read_all, model, tokens)
        yield _row(run, PredictionCase(size.name, config, Setting(length=length).prefill(), "prefill", call))


def decode(run: Bench) -> Iterator[Row]:
    """One more token, after some that the cache holds."""
    for size, past, batch in ((SMALL, 32, 1), (WIDER, 32, 1), (GPT2, 32, 1), (GPT2, 512, 1), (GPT2, 32, 8)):
        if run.quick and size is GPT2 and (past, batch) != (32, 1):
            continue
        config = _language(size)
        call = _Decoder(build(config).eval(), _tokens(config.vocabulary, batch, past))
        yield _row(run, PredictionCase(size.name, config, Setting(batch=batch).decode(past), "decode", call))


def forward(run: Bench) -> Iterator[Row]:
    """Models that read all at once: BERT, ViT, T5."""
    for name, setting in (("bert-base", Setting(length=128)), ("vit-b16", Setting()), ("t5-small", T5)):
        config = preset(name)
        if not (run.quick and name != "t5-small"):
            yield _row(run, PredictionCase(name, config, setting, "forward", _whole(config, setting)))


def step(run: Bench) -> Iterator[Row]:
    """A training step: forward, loss, backward, clipping, AdamW; without dropout."""
    sizes = (SMALL, WIDER, *(() if run.quick else (SIZES["subwords"], GPT2)))
    for size in sizes:
        for dtype in PRECISIONS if size is SMALL else PRECISIONS[:1]:
            setting = Setting(batch=size.batch, length=size.length, training=True, dtype=dtype)
            yield _row(run, PredictionCase(size.name, size.config, setting, "step", _training(size, dtype)))


def _row(run: Bench, case: PredictionCase) -> Row:
    dtype = case.setting.dtype
    row = Row("predict", f"{case.name}, {case.phase}", case.shape, dtype)
    expected = predict(lines(price_tree(case.config, case.setting)), _machine(), case.phase, dtype=dtype).seconds
    longest = run.seconds if run.quick else 10.0
    with torch.set_grad_enabled(case.phase == "step"):
        measured = compare({"measured": case.call}, budget=run.seconds, longest=longest, warmup=2)["measured"]
    # The prediction first, and the same in every round: ratios are predicted / measured.
    timings = {"headway": Timing((expected,) * len(measured.rounds)), "measured": measured}
    return timed(row, timings, target=TARGET)


@lru_cache
def _machine() -> Machine:
    machine, _ = stored()
    return machine or measure()


def _language(size: GPTSize) -> LanguageConfig:
    """The size's model with GPT-2's own length, so that there is room to decode."""
    return size.config.replace(length=1024, special=Special())


def _tokens(vocabulary: int, batch: int, length: int) -> Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(3))


def _read_all(model: Any, tokens: Tensor) -> object:
    return model.session(capacity=tokens.shape[1] + 1).read(tokens)


class _Decoder:
    """One token a call; begun again when the cache holds a quarter more."""

    def __init__(self, model: Any, tokens: Tensor) -> None:
        self._model, self._tokens, self._left = model, tokens, 0

    def __call__(self) -> Tensor:
        if not self._left:
            past = self._tokens.shape[1]
            self._session, self._left = self._model.session(capacity=2 * past), past // 4
            self._session.read(self._tokens)
        self._left -= 1
        return self._session.read(self._tokens[:, :1])


def _whole(config: Any, setting: Setting) -> Callable[[], Tensor]:
    model, kind = build(config).eval(), config.kind_or_name()
    if kind == "vision":
        images = torch.ones(setting.batch, config.channels, *sides(config.image))
        return lambda: model(images)
    target = _tokens(1000, setting.batch, setting.length)
    if kind == "seq2seq":
        source = _tokens(1000, setting.batch, setting.source_length)
        return lambda: model(source, target)
    return lambda: model.hidden_states(target)


def _training(size: GPTSize, dtype: str) -> Callable[[], object]:
    text = _tokens(size.vocabulary, size.batch, size.length + 1)
    inputs = {"tokens": text[:, :-1].contiguous(), "targets": text[:, 1:].contiguous()}
    return partial(headway_step(build(size.config, dtype=getattr(torch, dtype))), inputs)


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "prefill": prefill,
    "decode": decode,
    "forward": forward,
    "step": step,
}
