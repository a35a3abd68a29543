"""Windows for measuring: every token but the first is a target once, with as much before it as was promised."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers

from headway.config.base import IGNORED
from headway.data.shard_writer import build
from headway.data.shards import TokenView
from headway.data.source import Document
from headway.data.tokenizer import Tokenizer
from headway.data.windows import Strided


def tokens(total: int, place: Path) -> TokenView:
    """Token i is the number i."""
    engine = Engine(models.WordLevel({str(number): number for number in range(60)}, unk_token="0"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = " ".join(str(number) for number in range(total))
    return build([Document("here", text)], Tokenizer(engine, {}), place, identity="x").view()


def targets_of(strided: Strided) -> list[tuple[int, int]]:
    """(target, how many tokens it is predicted from), over all windows."""
    found = []
    for start in range(0, len(strided), 3):
        rows = np.arange(start, min(start + 3, len(strided)))
        batch = strided.batch(rows, rows)
        seen, targets = batch.inputs["tokens"].numpy(), batch.inputs["targets"].numpy()
        assert batch.counts["loss"] == (targets != IGNORED).sum()
        for row, place in np.argwhere(targets != IGNORED):
            assert targets[row, place] == seen[row, place] + 1
            found.append((int(targets[row, place]), int(place) + 1))
    return found


@pytest.mark.parametrize("total", [2, 7, 8, 9, 15, 29, 50])
@pytest.mark.parametrize("stride", [1, 2, 5, 7, None])
def test_every_token_but_the_first_is_asked_for_once(total: int, stride: int | None, tmp_path: Path) -> None:
    found = targets_of(Strided(tokens(total, tmp_path), 7, stride=stride))
    assert Counter(target for target, _ in found) == Counter(range(1, total))
    least = 7 - (stride or 7) + 1
    assert all(seen >= min(least, target) for target, seen in found)


def test_edges(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to predict in a text of 1 tokens"):
        Strided(tokens(1, tmp_path / "a"), 7)
    with pytest.raises(ValueError, match="a stride is at least 1, not 0"):
        Strided(tokens(9, tmp_path / "b"), 7, stride=0)
