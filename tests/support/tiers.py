"""Which tests `make test` runs, and which only `make nightly`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

NIGHTLY = pytest.mark.nightly
SSHD_KINDS = ["embedded", pytest.param("system", marks=[pytest.mark.system("sshd"), NIGHTLY])]
"""The SSH servers of emulated workers, for journeys that OpenSSH's need not show every time."""


def mostly_nightly(cases: Iterable[Any], *, count: int) -> list[Any]:
    """The cases for `pytest.mark.parametrize`: the first `count` run always, the others only at night.

    A tuple has a value for each of several names.
    """
    return [
        case if number < count else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[NIGHTLY])
        for number, case in enumerate(cases)
    ]
