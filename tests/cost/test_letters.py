"""Prices in letters: with the numbers put in their places they are the prices in numbers."""

from dataclasses import replace
from typing import Any

import jaxtyping
import pytest

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.input_lengths import fixed_length
from headway.cost.op_tree import Line, depth, lines
from headway.cost.setting import Setting
from headway.cost.show.report import merged
from headway.cost.symbols import Symbols, symbol, with_symbols
from headway.presets import preset
from headway.steps import COUNTINGS
from tests.cost.tiny import MODELS, SOME

SETTING = Setting(batch=3, length=11, source=7)
# Pairs of these masks are counted, not calculated.
COUNTED = ("selected", "dilated", "vit-local", "davit", "davit-kernel")


@pytest.fixture(autouse=True)
def _letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties of configurations promise whole numbers: in letters they are used as a user would, unchecked."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def in_letters(config: Frozen, letters: Symbols, setting: Setting = SETTING) -> Any:
    lettered_config = with_symbols(config, letters)
    assert lettered_config is not None
    length: Any = setting.length if fixed_length(config) else letters.of("L", setting.length)
    asked = replace(
        setting, batch=letters.of("B", setting.batch), length=length, source=letters.of("M", setting.source_length)
    )
    return price_tree(lettered_config, asked)


def value(formula: Any, letters: Symbols) -> int:
    numbers = {symbol(name): number for name, number in letters.numbers.items()}
    return formula if isinstance(formula, int) else int(formula.subs(numbers))


def counts(line: Line) -> list[Any]:
    one = line.operation
    costs = [(cost.dense, cost.useful, cost.other) for cost in (one.forward, one.backward)]
    return [line.runs, line.sets, one.parameters, one.borrowed, one.reads, one.writes, *costs[0], *costs[1]]


@pytest.mark.parametrize("name", [name for name in SOME if name not in COUNTED])
def test_letters_stand_for_the_numbers(name: str) -> None:
    letters = Symbols()
    tree, plain = in_letters(MODELS[name], letters), price_tree(MODELS[name], SETTING)
    for one, other in zip(lines(tree), lines(plain), strict=True):
        assert one.path == other.path
        assert [value(count, letters) for count in counts(one)] == counts(other), one.path
    for how in COUNTINGS.values():
        assert value(depth(tree, how), letters) == depth(plain, how)


@pytest.mark.parametrize("name", COUNTED)
def test_a_price_without_a_formula_says_so(name: str) -> None:
    letters = Symbols()
    if with_symbols(MODELS[name], letters) is None:
        return
    with pytest.raises(ValueError, match="formula"):
        in_letters(MODELS[name], letters)


def test_equal_sizes_share_a_letter_and_others_get_a_number() -> None:
    letters = Symbols()
    assert letters.of("F", 5) == letters.of("F", 5) == symbol("F")
    assert (letters.of("F", 7), letters.of("F", 11)) == (symbol("F₂"), symbol("F₃"))
    assert letters.meaning("F₂") == "feed-forward width"


def test_the_alphabet_of_a_llama() -> None:
    letters = Symbols()
    with_symbols(preset("llama3-8b"), letters)
    assert letters.numbers == {"D": 4096, "H": 32, "K": 128, "G": 8, "F": 14336, "N": 32, "V": 128256}


def test_one_head_is_as_wide_as_the_model() -> None:
    letters = Symbols()
    found = {line.path.split(".")[-1]: line.operation.forward.dense
             for line in merged(lines(in_letters(MODELS["bare"], letters)))}  # fmt: skip
    B, L, D, F = (symbol(name) for name in "BLDF")
    assert found["qkv"] == 3 * B * L * D**2
    assert found["core"] == 2 * B * L**2 * D
    assert found["up"] == B * L * D * F
