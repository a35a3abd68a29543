"""Calls as a user makes them, without the annotations' checks that this test suite switches on."""

import json

from tests.processes import Processes

PREAMBLE = """
import json, sys
import torch
import headway
from headway import *
from headway.ops.bias import Alibi
torch.manual_seed(0)
q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 7), torch.randn(2, 3, 5, 11)
def outcome(expression):
    try:
        return "returned " + str(eval(expression))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
print(json.dumps([outcome(expression) for expression in json.loads(sys.argv[1])]))
"""


def outcomes(processes: Processes, expressions: list[str]) -> dict[str, str]:
    """What each expression returns or raises, all of them in one fresh process."""
    run = processes.run(PREAMBLE, json.dumps(expressions))
    assert run.code == 0, run.stderr
    return dict(zip(expressions, json.loads(run.stdout), strict=True))
