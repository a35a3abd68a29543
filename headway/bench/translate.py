"""`headway bench translate`: beam search over sources of mixed length, in the size of the OPUS-MT models.

Weights are random, so no text would end where another library ends it: every library makes the same number of tokens.
Two searches may keep different texts of nearly the same score; so the scores are compared, not the tokens.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headway.bench.agree import Disagreement
from headway.bench.contenders import TRANSLATION
from headway.bench.model_files import random_model
from headway.bench.peers import race, team
from headway.bench.row import Row, Target
from headway.bench.run import Bench
from headway.hub.load import load
from headway.models.seq2seq import Seq2Seq
from headway.presets import preset

PRESET = "marian-base"
BATCH, BEAMS, SOURCE, NEW = 16, 4, (12, 40), 32  # texts, beams, tokens of the shortest and longest source, tokens made
FACTORS = {"float32": 1.0, "int8": 1.0}
# Of the mean log-probability of a token: how far a text may be below the best that the model itself finds.
TOLERANCE = {"float32": 0.02, "int8": 0.3}


def translate(run: Bench, precision: str) -> Iterator[Row]:
    """One row: a batch of sources through each library."""
    new = NEW // 4 if run.quick else NEW
    directory = random_model(preset(PRESET), run.place / PRESET) if run.target is None else Path(run.target)
    model = load(directory, dtype="float32").model
    if not isinstance(model, Seq2Seq):
        raise ValueError(f"{directory} holds no encoder-decoder: translate needs one")
    name = "Marian base" if run.target is None else directory.name
    row = Row("translate", f"{name}, beam {BEAMS}", f"batch {BATCH}, {new} tokens", precision, unit="tokens/s")
    sources = _sources(model.config.vocabulary)
    weights = sum(one.numel() for one in model.decoder.parameters()) + model.tokens.weight.numel()
    with team(run, TRANSLATION, precision, directory, rows=BATCH, length=new + 1) as found:
        yield race(
            run,
            row,
            found,
            ("translate", (sources, BEAMS, new)),
            _check(model, sources, new, TOLERANCE[precision]),
            flops=2 * BATCH * BEAMS * new * weights,
            bytes=0,
            target=Target(f"at least {FACTORS[precision]} x the best peer", at_least=FACTORS[precision]),
            figure=lambda seconds: BATCH * new / seconds,
        )


def _sources(vocabulary: int) -> list[list[int]]:
    """Each ends with token 0, as Marian's do."""
    draw = torch.Generator().manual_seed(3)
    low, high = SOURCE
    lengths = [low + (high - low) * place // (BATCH - 1) for place in range(BATCH)]
    return [[*torch.randint(2, vocabulary - 1, (one - 1,), generator=draw).tolist(), 0] for one in lengths]


def _check(model: Seq2Seq, sources: list[list[int]], new: int, tolerance: float) -> Callable[[Any], None]:
    """Refuses a contender whose texts score less than those of the first one that was checked, which is headway."""
    best: list[float] = []

    def judge(contender: Any) -> None:
        texts = contender.ask("translate", sources, BEAMS, new)
        if [len(text) for text in texts] != [new] * len(sources):
            raise Disagreement(f"it gave {[len(text) for text in texts]} tokens, and {new} each were asked for")
        scores = [_score(model, source, text) for source, text in zip(sources, texts, strict=True)]
        best[:] = best or scores
        gap = max(one - mine for one, mine in zip(best, scores, strict=True))
        if not gap <= tolerance:
            raise Disagreement(f"a text's tokens are {gap:.2g} less likely, at most {tolerance:.2g} is allowed")

    return judge


@torch.inference_mode()
def _score(model: Seq2Seq, source: list[int], text: list[int]) -> float:
    """The mean log-probability of a text's tokens."""
    target = torch.tensor([[model.config.special.start, *text]])
    logits = model(torch.tensor([source]), target[:, :-1])
    return float(logits.log_softmax(-1).gather(2, target[:, 1:, None]).mean())


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {name: partial(translate, precision=name) for name in FACTORS}
