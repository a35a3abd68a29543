"""`--explain`: lines that add up to the sheet."""

import re

import jaxtyping
import pytest
from torch import nn

from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted
from headway.cost.show.explain import explain_table, explain_text, explained
from tests.cost.tiny import MODELS, SOME


@pytest.fixture(autouse=True)
def _letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties of configurations promise whole numbers: in letters they are used as a user would, unchecked."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.parametrize("name", SOME)
def test_the_lines_add_up_to_the_sheet(name: str) -> None:
    sheet = drafted(MODELS[name], PriceRequest(batch=2))
    steps, _ = explained(sheet)
    sums = {step.quantity: step.value for step in steps if step.path == "in all"}
    by_hand = {name: sum(step.value for step in steps if step.quantity == name and step.path != "in all")
               for name in ("parameters", "MACs", "other FLOPs")}  # fmt: skip
    assert by_hand == {"parameters": sheet.params, "MACs": sheet.macs, "other FLOPs": sheet.other_flops}
    assert sums == by_hand | {
        "FLOPs": sheet.flops, "useful MACs": sheet.useful_flops // 2, "useful FLOPs": sheet.useful_flops,
        "depth": sheet.depth["tree"],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["gpt2", "llama", "seq2seq", "recurrent", "vit", "bert-words"])
def test_the_numbers_of_a_line_give_its_value(name: str) -> None:
    """What stands in the middle is arithmetic: Python finds the same."""
    sheet = drafted(MODELS[name], PriceRequest(batch=2, length=None if name == "vit" else 11))
    steps, numbers = explained(sheet)
    assert numbers["D"] in (14, 15, 10, 6)
    found = 0
    for step in steps:
        if step.path != "in all" and "⌈" not in step.numbers and "counted" not in step.numbers:
            assert eval(_python(step.numbers)) == step.value, step
            found += 1
    assert found > 20


def _python(text: str) -> str:
    raised = {"²": "**2", "³": "**3"}
    return re.sub("[²³]", lambda sign: raised[sign[0]], text.replace(",", "").replace("·", "*"))


def test_a_line_as_on_paper() -> None:
    text = explain_text(drafted("gpt2", PriceRequest(length=1024)))
    assert "D = 768  width" in text
    assert "\nstack.blocks.attention.core\n  MACs         2·N·B·L²·H·K = 2·12·1·1,024²·12·64 = 19,327,352,832\n" in text
    assert "useful MACs  N·B·L·H·K·(L + 1) = 12·1·1,024·12·64·(1,024 + 1) = 9,673,113,600" in text
    assert "FLOPs        2 · MACs = 291,648,307,200" in text


def test_padding_is_counted_and_not_calculated() -> None:
    sheet = drafted(MODELS["gpt2"], PriceRequest(batch=2, length=11, lengths=(5, 9)))
    useful = [step for step in explained(sheet)[0] if step.quantity == "useful MACs" and step.path != "in all"]
    assert [step.formula for step in useful] == ["pairs that the mask allows, counted"]
    assert sum(row[-1] for row in explain_table(sheet).rows if row[1] == "useful FLOPs") == sheet.useful_flops  # type: ignore


def test_a_model_without_letters_shows_its_products_in_numbers() -> None:
    steps, numbers = explained(drafted(MODELS["davit"], PriceRequest()))
    assert numbers == {}
    products = [step for step in steps if step.quantity == "MACs" and step.path.endswith("qkv")]
    assert products
    assert all(eval(_python(step.formula)) == step.value and "·" in step.formula for step in products)


def test_a_traced_module_is_explained_in_numbers() -> None:
    steps, numbers = explained(drafted(nn.Linear(3, 5), PriceRequest(batch=2, length=7)))
    assert numbers == {}
    assert [(step.quantity, step.value) for step in steps[:2]] == [("parameters", 20), ("MACs", 210)]
