"""What a pass costs a reader and the interpreter: Python functions of ours a layer, files, numbers read back to Python.

Counted in a process of its own, where types are not checked: the checks are functions too.
"""

import json
from typing import Any

import pytest

from tests.processes import Processes

COUNT = """
import json, sys
from pathlib import Path

import torch

import headway as hw
from headway.native import build

ROOT = str(Path(hw.__file__).parent)
NAMES = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")
reads = 0


def counting(name):
    real = getattr(torch.Tensor, name)

    def read(x, *rest):
        global reads
        reads += 1
        return real(x, *rest)

    return read


for name in NAMES:
    setattr(torch.Tensor, name, counting(name))


def counted(run):
    calls, files = 0, set()

    def seen(frame, event, arg):
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            calls += 1
            files.add(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    run()
    before = reads
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls, files, reads - before


def ways(preset, layers):
    model = hw.build(preset, layers=layers, width=24, heads=2, vocabulary=31, length=97).eval()
    tokens = torch.randint(0, 31, (2, 13))
    session, readable = model.session(capacity=97), model.session(capacity=97)
    with torch.no_grad():
        session.read(tokens)
        readable.read(tokens)

    def forward():
        with torch.no_grad():
            model(tokens)

    def training():
        model.train()
        model.loss(tokens).backward()

    def step():
        with torch.no_grad():
            session.read(tokens[:, :1])

    def step_by_layers():
        with torch.no_grad(), build.switched_off():
            readable.read(tokens[:, :1])

    ways = {"forward": forward, "step": step, "step by layers": step_by_layers, "training": training}
    return {name: counted(way) for name, way in ways.items()}


found = {}
for preset in ("gpt2", "llama3.2-1b"):
    few, many = ways(preset, 2), ways(preset, 5)
    found[preset] = {
        way: {
            "calls": (many[way][0] - few[way][0]) / 3, "reads a layer": (many[way][2] - few[way][2]) / 3,
            "reads": many[way][2], "files": sorted(many[way][1]),
        }
        for way in few
    }
print(json.dumps(found))
"""
# Of a GPT-2's layer; rotary positions and a gate are five functions more. A step is one call of a compiled program;
# where there is none it goes through the layers, as a forward pass does, and appends to a cache that marks where to
# go back to.
CALLS = {
    "gpt2": {"forward": 25, "training": 30, "step": 10, "step by layers": 26},
    "llama3.2-1b": {"forward": 30, "training": 35, "step": 10, "step by layers": 31},
}
FILES = {"gpt2": 10, "llama3.2-1b": 11}  # the tenth decides whether GELU is computed by a compiled kernel
READS = 9  # in a whole pass: ranges of tokens, positions and targets, and whether all was finite
WAYS = [(preset, way) for preset, ways in CALLS.items() for way in ways]


@pytest.fixture(scope="module")
def found(processes: Processes) -> Any:
    done = processes.run(COUNT)
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("preset", "way"), WAYS)
def test_functions_of_ours_a_layer(found: Any, preset: str, way: str) -> None:
    assert 5 < found[preset][way]["calls"] <= CALLS[preset][way]


@pytest.mark.parametrize("preset", CALLS)
def test_files_from_tokens_to_logits(found: Any, preset: str) -> None:
    assert 5 < len(found[preset]["forward"]["files"]) <= FILES[preset], found[preset]["forward"]["files"]


@pytest.mark.parametrize(("preset", "way"), WAYS)
def test_nothing_is_read_back_inside_of_a_stack(found: Any, preset: str, way: str) -> None:
    assert found[preset][way]["reads a layer"] == 0
    assert 0 < found[preset][way]["reads"] <= READS
