"""torch.compile: a pass is one graph, and the only place where it comes back to Python is behind the stack.

Traced in a process of its own: types that are checked at run time would be traced too.
"""

import json
from typing import Any

import pytest

from tests.processes import Processes

TRACE = """
import json, sys
import torch, torch._dynamo as dynamo
import headway as hw

tokens = torch.randint(0, 31, (2, 13), generator=torch.Generator().manual_seed(1))


def traced(options):
    found = []
    for layers in (3, 2):
        dynamo.reset()
        model = hw.build("gpt2", layers=layers, width=24, heads=3, vocabulary=31, length=17, dropout=0.0, **options)
        told = [dynamo.explain(way)(tokens) for way in (model, model.loss)]
        places = {r.user_stack[-1].filename.rpartition("headway/")[2] + " " + r.user_stack[-1].name
                  for one in told for r in one.break_reasons}
        found.append([[one.graph_break_count for one in told], sorted(places)])
    dynamo.reset()
    wanted = torch.autograd.grad(model.loss(tokens), list(model.parameters()))
    compiled = torch.compile(model.loss, backend="aot_eager")
    got = torch.autograd.grad(compiled(tokens), list(model.parameters()))
    apart = max(float((a - b).abs().max()) for a, b in zip(wanted, got))
    return {"found": found, "apart": apart}


print(json.dumps({name: traced(options) for name, options in json.loads(sys.argv[1]).items()}))
"""


OPTIONS: dict[str, dict[str, str]] = {"learned": {}, "rotary": {"positions": "rotary", "norm": "rms"}}


@pytest.fixture(scope="module")
def traced(processes: Processes) -> dict[str, Any]:
    """All in one process: importing what torch.compile needs takes longer than tracing."""
    done = processes.run(TRACE, json.dumps(OPTIONS))
    assert done.code == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", OPTIONS)
def test_no_graph_break_inside_of_the_stack(name: str, traced: dict[str, Any]) -> None:
    told = traced[name]
    (many, more), (few, places) = told["found"]
    assert few == many and places == more == ["nn/context.py sound"]
    assert max(few) <= 4  # one break, seen from each of the functions around it
    assert told["apart"] < 1e-6
