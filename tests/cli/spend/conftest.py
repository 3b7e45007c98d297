"""Other people's nodes, which cost as much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def elsewhere(terminal: Any, elsewhere_in: Callable[[str, str], Any]) -> Any:
    """Somebody else at work in the terminal's project."""
    return elsewhere_in(terminal.rest, terminal.environment["JUPYTER_TPU_PROJECT"])
