"""Counts at sizes where kernels work in blocks and tiles, and under masks: executed against what is dispatched, useful
against a brute-force count over the tabulated mask."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from headway.config import AttentionConfig, Frozen, Linear, Local
from headway.cost.compose import price_tree
from headway.cost.compose.layers import core_price
from headway.cost.op_tree import backward, forward, lines
from headway.cost.reference_path import counter
from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.ops.mask import Mask, causal, packed, padding, window
from headway.ops.mask.pairs import Pairs
from tests.cost.tiny import MODELS, VOCABULARY, language
from tests.fresh import fresh

LONG = 401  # tokens: more than 2^17 pairs, so that tiles are planned
KINDS: dict[str, Frozen] = {
    "llama": language(),
    "capped": MODELS["capped"],
    "linear": language(Linear(), rotary=None),
    "local": language(Local(window=30)),
    "dilated": language(Local(window=20, dilation=3)),
    "selected": language(Local(window=20, selected=(0, 300))),
    "t5": MODELS["t5"],
    "seq2seq": MODELS["seq2seq"],
}


@pytest.mark.parametrize("name", KINDS)
def test_executed_flops_of_long_texts(name: str) -> None:
    config, setting = KINDS[name], Setting(batch=1, length=LONG, source=389)
    model, given = fresh(config), real_inputs(config, setting)
    with torch.no_grad():
        model(*given)  # the canary of the fused kernel sings here, uncounted
        with counter() as found:
            model(*given)
    assert 2 * (forward(price_tree(config, setting)).executed or 0) == found.get_total_flops()
    tree = price_tree(config, replace(setting, training=True))
    with counter() as found:
        out = model(*given)
    assert 2 * (forward(tree).executed or 0) == found.get_total_flops()
    with counter() as found:
        out.sum().backward()
    assert 2 * (backward(tree).executed or 0) == found.get_total_flops()


def test_causal_blocks_of_the_fused_kernel() -> None:
    """800 tokens: blocks of 256 queries meet blocks of 512 keys, so the first 512 rows compute half of all pairs."""
    one = AttentionConfig(width=6, heads=1, causal=True)
    core = core_price(one, Setting(length=800))
    assert core.forward.executed == (512 * 512 + 288 * 800) * 12
    assert core.backward.executed == (512 * 512 + 288 * 800) * 30
    assert core.forward.useful == 800 * 801 // 2 * 12
    assert core.forward.dense == 800 * 800 * 12


MASKS: dict[str, tuple[Setting, Mask | None, dict[str, Any]]] = {
    "plain": (Setting(batch=3, length=11), None, {}),
    "padding": (Setting(batch=3, length=11, lengths=(11, 2, 7)), None, {"keep": [11, 2, 7]}),
    "window": (Setting(batch=3, length=11, mask=window(4)), window(4), {}),
    "segments": (Setting(batch=1, length=11, mask=packed([3, 2, 6])), packed([3, 2, 6]), {}),
}


@pytest.mark.parametrize("name", MASKS)
def test_counts_under_a_mask(name: str) -> None:
    """The core's useful multiply-adds, over the table of the mask; and what runs."""
    setting, mask, options = MASKS[name]
    config = language(rotary=None)
    attention = config.stack.block.attention
    rule = causal() if mask is None else causal() & mask
    keep = None
    if "keep" in options:
        keep = torch.arange(11) < torch.tensor(options["keep"])[:, None]
        rule = rule & padding(keep=keep)
    table = rule.at(Pairs.of(11)).expand(setting.batch, -1, -1, -1)
    assert core_price(attention, setting).forward.useful == int(table.sum()) * 6 * (4 + 5)
    model, tokens = fresh(config), torch.randint(VOCABULARY, (setting.batch, 11))
    with torch.no_grad():
        model(tokens, keep=keep, mask=mask)
        with counter() as found:
            model(tokens, keep=keep, mask=mask)
    assert 2 * (forward(price_tree(config, setting)).executed or 0) == found.get_total_flops()


def test_cross_attention_counts_the_source_that_is_real() -> None:
    config = MODELS["seq2seq"]
    setting = Setting(batch=2, length=5, source=7, source_lengths=(7, 3))
    cross = next(line for line in lines(price_tree(config, setting)) if line.path.endswith("cross.core"))
    assert cross.operation.forward.useful == 2 * 5 * (7 + 3) * (5 + 5)
    assert cross.operation.forward.dense == 2 * 2 * 5 * 7 * (5 + 5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "local", "dilated", "linear", "seq2seq", "t5", "recurrent"])
def test_prefill_and_decoding_are_what_a_session_runs(name: str) -> None:
    """Executed FLOPs of reading a prompt of 9 tokens, and of one more, through the cache."""
    config, setting = MODELS[name], Setting(batch=2, length=9, source=7)
    model = fresh(config)
    *source, tokens = real_inputs(config, setting)

    def begun() -> Any:
        return model.session(*source)

    with torch.no_grad():
        begun().read(tokens)
        with counter() as found:
            session = begun()
            session.read(tokens)
        assert 2 * (forward(price_tree(config, setting.prefill())).executed or 0) == found.get_total_flops()
        with counter() as found:
            session.read(tokens[:, :1])
    assert 2 * (forward(price_tree(config, setting.decode(9))).executed or 0) == found.get_total_flops()
