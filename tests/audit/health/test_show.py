"""A diagnosis as text, as JSON and as a page."""

import json
from dataclasses import fields, replace

import pytest

from headway.audit.health import Depth, Head, Health, diagnose
from headway.audit.health.record import DEPTH_MEASURES, MEASURES
from headway.audit.health.show import lines, section
from headway.render import page
from tests.audit.health.patients import decoder, tokens


@pytest.fixture(scope="module")
def sick() -> Health:
    model, t = decoder(scale=1.0), tokens()
    return diagnose(model, lambda: model(t), tokens=t)


def test_lines_name_layers_symptom_and_remedy(sick: Health) -> None:
    found = lines(sick)
    text = "\n".join(found)
    assert "1 symptom" in found
    assert "scale: stack.blocks.0.attention head 0" in text and "and 9 more" in text
    assert "remedy    set the scale to 1/√(head width) = 0.3015" in text
    assert sum(line.startswith("stack.blocks.1.attention ") for line in found) == 1
    assert max(map(len, found)) < 130


def test_lines_of_the_healthy_and_of_nothing(sick: Health) -> None:
    assert lines(replace(sick, symptoms=[]))[-1] == "healthy: no symptom was found"
    assert lines(Health([], [], None, []))[-1] == "healthy: no symptom was found"


def test_json_bears_everything(sick: Health) -> None:
    odd = replace(sick, depth=[Depth("a", float("nan"), float("inf"), False)])
    found = json.loads(json.dumps(odd.as_json(), allow_nan=False))
    assert found["depth"][0] == {"module": "a", "activation": "nan", "gradient": "inf", "finite": False}
    assert found["healthy"] is False and found["symptoms"][0]["fix"]["scale"] == pytest.approx(11**-0.5)
    assert len(found["heads"]) == 12


def test_every_measure_has_a_definition() -> None:
    plain = {"module", "head", "mechanism", "width", "keys"}
    assert {one.name for one in fields(Head)} - plain == set(MEASURES)
    assert {one.name for one in fields(Depth)} - {"module"} == set(DEPTH_MEASURES)


def test_the_section_stands_in_a_page(sick: Health) -> None:
    made = page("A model", [section(sick)])
    assert 'id="health"' in made and "stack.blocks.2.attention head 3" in made
    assert made.count("<figure") == 2
    empty = section(Health([], [], None, [], ["no attention <was> seen"])).html
    assert "no attention &lt;was&gt; seen" in empty and "<figure" not in empty
