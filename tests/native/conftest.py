"""Each test that takes `kernels` runs on every instruction set that this machine has."""

import pytest

from headway.native import build


@pytest.fixture(params=build.variants())
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernels of one instruction set take the place of the best ones; its name."""
    monkeypatch.delenv("HEADWAY_NATIVE", raising=False)
    monkeypatch.setattr(build, "_best", lambda: build.load(request.param))
    return request.param
