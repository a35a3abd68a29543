"""A fixture for pytest, there wherever headway is installed: `def test_mine(audit): audit(MyModel())`."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def audit() -> Callable[..., Any]:
    """Tries the laws on a model; a broken one fails the test with its counter-example. Returns the report."""
    from headway.audit.asserts import assert_laws  # torch takes seconds to import, and most tests do not ask

    return assert_laws
