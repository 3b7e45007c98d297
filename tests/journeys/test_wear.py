"""A server that is killed again and again, over a link that is cut again and again, costs no more with time."""

from __future__ import annotations

import logging

import pytest
from journey_wear import soak_for

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


def test_cuts_and_restarts_wear_nothing_out() -> None:
    assert soak_for(40, logging.getLogger(__name__).info, cut_every_s=3, restart_every_s=12) == []
