"""The window learns what the path carries, and remembers it over pauses."""

from __future__ import annotations

import pytest

from jupyter_tpu.wire.flow import MIN_WINDOW_BYTES, Window

MIB = 1024 * 1024
SLICE = 256 * 1024


class Path:
    """Carries `rate` bytes a second, with a round trip of `trip_s`; one burst after the other."""

    def __init__(self, rate: float, trip_s: float) -> None:
        self.window, self.rate, self.trip_s, self.now = Window(), rate, trip_s, 100.0

    def burst(self, size: int) -> float:
        """Send so much as fast as the window allows; seconds until all has been acknowledged."""
        began, free_at, arriving = self.now, self.now, list[float]()
        while size or arriving:
            while size and self.window.room >= SLICE:
                size -= SLICE
                self.window.sent(SLICE, self.now, starved=not size)
                free_at = max(free_at, self.now) + SLICE / self.rate
                arriving.append(free_at + self.trip_s)
            self.now = arriving.pop(0)
            self.window.received(SLICE, self.now)
        return self.now - began


@pytest.mark.parametrize("pause_s", [0.0, 12.0, 300.0])
def test_a_burst_after_pauses_and_small_bursts_is_as_fast_as_the_path(pause_s: float) -> None:
    path = Path(100 * MIB, 0.2)
    path.burst(256 * MIB)
    for _ in range(3):
        path.now += pause_s
        path.burst(2 * MIB)
    path.now += pause_s
    assert path.burst(64 * MIB) == pytest.approx(0.2 + 64 / 100, rel=0.1)


def test_little_output_after_a_pause_takes_nothing_from_the_window() -> None:
    path = Path(100 * MIB, 0.2)
    path.burst(256 * MIB)
    learned = path.window.size
    for _ in range(30):
        path.now += 12
        path.burst(SLICE)
    assert path.window.size == pytest.approx(learned, rel=0.1)


def test_a_path_that_has_become_slow_is_not_filled_with_what_it_carried_before() -> None:
    path = Path(100 * MIB, 0.05)
    path.burst(256 * MIB)
    path.rate = 2 * MIB
    path.burst(64 * MIB)
    assert path.window.size <= 2 * MIN_WINDOW_BYTES


def test_a_short_dip_of_the_path_is_made_good_at_once() -> None:
    path = Path(100 * MIB, 0.05)
    path.burst(256 * MIB)
    learned = path.window.size
    path.rate = 10 * MIB
    path.burst(20 * MIB)
    path.rate = 100 * MIB
    path.burst(64 * MIB)
    assert path.window.size == pytest.approx(learned, rel=0.3)
