"""torch.compile: a pass is one graph, and the only place where it comes back to Python is behind the stack.

Traced in a process of its own: types that are checked at run time would be traced too.
"""

import json
from typing import Any

import pytest

from tests.processes import Processes
from tests.thorough import THOROUGH

SECONDS = 600.0  # tracing takes half a minute on a quiet machine

TRACE = """
import json, sys
import torch, torch._dynamo as dynamo
import headway as hw

options = json.loads(sys.argv[1])
tokens, longer = (torch.randint(0, 31, (2, size), generator=torch.Generator().manual_seed(1)) for size in (13, 400))
found = []
for layers in (5, 2):
    dynamo.reset()
    model = hw.build("gpt2", layers=layers, width=24, heads=3, vocabulary=31, length=400, dropout=0.0, **options)
    told = [dynamo.explain(way)(tokens) for way in (model, model.loss)]
    places = {r.user_stack[-1].filename.rpartition("headway/")[2] + " " + r.user_stack[-1].name
              for one in told for r in one.break_reasons}
    found.append([[one.graph_break_count for one in told], sorted(places)])
dynamo.reset()
compiled, apart = torch.compile(model.loss, backend="aot_eager"), 0.0
for some in (tokens, longer):
    wanted = torch.autograd.grad(model.loss(some), list(model.parameters()))
    got = torch.autograd.grad(compiled(some), list(model.parameters()))
    apart = max([apart, *(float((a - b).abs().max()) for a, b in zip(wanted, got))])
print(json.dumps({"found": found, "apart": apart}))
"""


MODELS: dict[str, dict[str, Any]] = {
    "learned": {},
    "rotary": {"positions": "rotary", "norm": "rms"},
    "alibi": {"positions": "alibi"},
    "relative": {"positions": "relative"},
    "clipped": {"positions": "clipped"},
    "local": {"attention": "local", "window": 4},
    "local, rotary": {"attention": "local", "window": 4, "positions": "rotary"},
    "local, dilated": {"attention": "local", "window": 4, "dilation": 2},
    "selected": {"attention": "local", "window": 4, "selected": [0, 5]},
    "global": {"attention": "local", "window": 4, "global_tokens": True},
    "linear": {"attention": "linear"},
    "softcap": {"softcap": 5.0},
    "one key head": {"kv_heads": 1},
}


def traced(processes: Processes, code: str, options: dict[str, Any]) -> dict[str, Any]:
    """What the code prints last."""
    child = processes.start(code, json.dumps(options))
    assert child.wait(SECONDS) == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


DAILY = [name for name in MODELS if THOROUGH or name == "selected"]


@pytest.mark.parametrize("options", [MODELS[name] for name in DAILY], ids=DAILY)
def test_no_graph_break_inside_of_the_stack(options: dict[str, Any], processes: Processes) -> None:
    told = traced(processes, TRACE, options)
    (many, more), (few, places) = told["found"]
    assert few == many and places == more == ["nn/context.py sound"]
    assert max(few) <= 4  # one break, seen from each of the functions around it
    assert told["apart"] < 1e-6


PADDED = """
import json, sys
import torch, torch._dynamo as dynamo
import headway as hw

tokens = torch.randint(0, 31, (2, 13), generator=torch.Generator().manual_seed(1))
right, left = torch.ones(2, 2, 13, dtype=torch.bool)
right[0, -3:] = left[0, :3] = False
found = {}
for name, options in json.loads(sys.argv[1]).items():
    dynamo.reset()
    model = hw.build("gpt2", layers=2, width=24, heads=3, vocabulary=31, length=17, dropout=0.0, **options)
    told = dynamo.explain(model)(tokens, keep=left)
    places = {r.user_stack[-1].filename.rpartition("headway/")[2] + " " + r.user_stack[-1].name
              for r in told.break_reasons}
    compiled = torch.compile(model, backend="aot_eager")
    apart = [(compiled(tokens, keep=keep) - model(tokens, keep=keep))[keep].abs().max().item()
             for keep in (left, right)]
    found[name] = [sorted(places), max(apart)]
print(json.dumps(found))
"""


def test_padding_on_either_side_means_the_same_to_a_compiled_model(processes: Processes) -> None:
    names = ("learned", "rotary", "alibi", "local", "selected", "linear", "softcap") if THOROUGH else ("local",)
    some = {name: MODELS[name] for name in names}
    found = traced(processes, PADDED, some)
    assert {name: apart for name, (_, apart) in found.items() if apart > 1e-6} == {}
    # Where the first of a left-padded text stands is a number in a tensor, and tokens that all see stand by position.
    assert all(places == ["nn/context.py sound"] for name, (places, _) in found.items() if name != "selected"), found
