"""Other people's nodes, which routes list as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def elsewhere(cloud: Any, elsewhere_in: Callable[[str, str], Any]) -> Any:
    """Somebody else at work in the project."""
    return elsewhere_in(cloud.rest, cloud.project)
