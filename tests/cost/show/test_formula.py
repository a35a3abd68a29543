"""`--formula`: polynomials that give the values of the sheet."""

import pytest

from headway.config import DaViTConfig
from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted
from headway.cost.show.formula import formula_record, formula_table, formulas, remarks, values
from headway.cost.symbols import symbol
from headway.presets import preset
from tests.cost.tiny import MODELS, SOME

B, L, M = symbol("B"), symbol("L"), symbol("M")


@pytest.mark.parametrize("name", [name for name in SOME if name not in ("selected", "local", "dilated")])
def test_formulas_give_the_values_of_the_sheet(name: str) -> None:
    config = MODELS[name]
    source = 7 if config.kind_or_name() in ("seq2seq", "recurrent") else None
    sheet = drafted(config, PriceRequest(batch=3, source=source))
    at = {B: 3, L: sheet.setting.length, M: source or 1}
    for quantity, formula in formulas(config, source=source is not None).items():
        found = formula if isinstance(formula, int) else formula.subs(at)
        # a model of one length is priced for one row, and its depth does not depend on rows
        assert found == values(sheet)[quantity], quantity


def test_gpt2_by_hand() -> None:
    """12 layers: 24 D² + 4 D L FLOPs a token and layer, and the head 2 D V."""
    width, layers, vocabulary = 768, 12, 50257
    found = formulas(preset("gpt2"))
    assert (
        found["dense FLOPs"] == layers * (24 * width**2 * B * L + 4 * width * B * L**2) + 2 * width * vocabulary * B * L
    )
    assert found["dense MACs"] * 2 == found["dense FLOPs"]
    assert found["parameters"] == 124_439_808


def test_a_window_has_a_formula_for_texts_that_fill_it() -> None:
    config = MODELS["local"]
    sheet = drafted(config, PriceRequest(batch=2, length=11))
    assert formulas(config)["useful FLOPs"].subs({B: 2, L: 11}) == sheet.useful_flops
    assert "window of 3" in remarks(sheet)[0]


def test_a_model_of_one_length_depends_on_the_batch_alone() -> None:
    config = MODELS["davit"]
    assert isinstance(config, DaViTConfig)
    found = formulas(config)
    assert found["dense FLOPs"] == B * drafted(config, PriceRequest()).flops
    assert "one length" in remarks(drafted(config, PriceRequest()))[0]


def test_the_table_says_at_what_sizes_its_values_are() -> None:
    made = formula_table(drafted(MODELS["seq2seq"], PriceRequest(batch=2, length=5, source=7)))
    assert made.title.endswith("B = 2, L = 5, M = 7")
    assert made.rows[1][0] == "dense MACs (B, L, M)"
    record = formula_record(drafted("gpt2", PriceRequest(length=5)))
    assert record["formulas"]["dense FLOPs"] == "36864*B*L**2 + 247064064*B*L"
    assert record["values"]["dense FLOPs"] == drafted("gpt2", PriceRequest(length=5)).flops


def test_a_trace_has_no_formula() -> None:
    from torch import nn

    with pytest.raises(ValueError, match="traced at one size"):
        formula_table(drafted(nn.Linear(3, 5), PriceRequest(length=2)))
