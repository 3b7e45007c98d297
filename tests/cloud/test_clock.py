"""The cloud's time as its answers tell it, on a computer whose clock is set while a process runs."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from jupyter_tpu.cloud.cloud_clock import CloudClock

NOON = 2_000_000_000.0
HOUR_S = 3600.0


class Computer:
    """Its wall clock is `ahead_s` ahead of the cloud's; its steady clock began with the process."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s
        self.passed_s = 0.0
        self.clock = CloudClock(lambda: (self.cloud_now + self.ahead_s, self.passed_s))

    @property
    def cloud_now(self) -> float:
        return NOON + self.passed_s

    def answer(self, *, there_s: float = 0.1, back_s: float = 0.1, wrong_by_s: float = 0.0) -> bool:
        """The cloud is asked something; whether the date of its answer is believed."""
        asked = self.clock.steady()
        self.passed_s += there_s
        date = formatdate(self.cloud_now + wrong_by_s, usegmt=True)
        self.passed_s += back_s
        return self.clock.learn(date, asked=asked, answered=self.clock.steady())


@pytest.mark.parametrize("ahead_s", [-HOUR_S, HOUR_S, -40.0, 86_400.0])
def test_the_first_two_answers_tell_how_wrong_the_clock_is(ahead_s: float) -> None:
    computer = Computer(ahead_s)
    assert not computer.answer()
    assert computer.clock.now() == computer.cloud_now + ahead_s
    assert computer.answer()
    assert computer.clock.ahead_s == pytest.approx(ahead_s, abs=1.0)
    assert computer.clock.now() == pytest.approx(computer.cloud_now, abs=1.0)


def test_what_was_asked_before_the_first_answer_is_dated_right() -> None:
    computer = Computer(HOUR_S)
    asked, asked_at = computer.clock.steady(), computer.cloud_now
    computer.answer()
    computer.answer()
    assert computer.clock.moment(asked).wall == pytest.approx(asked_at, abs=1.0)


@pytest.mark.parametrize("ahead_s", [0.0, 1.5, -20.0])
def test_a_clock_that_is_wrong_by_seconds_is_taken_as_it_is(ahead_s: float) -> None:
    computer = Computer(ahead_s)
    computer.answer()
    assert (computer.clock.ahead_s, computer.clock.notice) == (0.0, "")
    assert computer.clock.now() == computer.cloud_now + ahead_s


def test_a_slow_answer_makes_no_right_clock_wrong() -> None:
    computer = Computer()
    computer.answer(there_s=0.0, back_s=50.0)
    assert computer.clock.ahead_s == 0.0
    computer.ahead_s = HOUR_S
    assert computer.clock.ahead_s == pytest.approx(HOUR_S, abs=30.0)


def test_answers_together_tell_more_than_each() -> None:
    computer = Computer(HOUR_S)
    computer.answer(there_s=20.0, back_s=0.0)
    computer.answer(there_s=20.0, back_s=0.0)
    computer.answer(there_s=0.0, back_s=20.0)
    assert computer.clock.ahead_s == pytest.approx(HOUR_S, abs=1.0)


@pytest.mark.parametrize("leap_s", [-HOUR_S, HOUR_S])
def test_a_clock_that_is_set_while_the_process_runs_moves_no_time(leap_s: float) -> None:
    computer = Computer()
    computer.answer()
    computer.ahead_s = leap_s
    computer.passed_s += 5.0
    assert computer.clock.now() == pytest.approx(computer.cloud_now, abs=1.0)
    assert computer.clock.notice.startswith("This computer's clock is 1 h ")
    computer.ahead_s = 0.0
    assert computer.clock.notice == ""


def test_two_answers_that_contradict_those_before_are_believed() -> None:
    computer = Computer()
    computer.answer()
    computer.passed_s -= 100.0  # the steady clock stood still, as some do while the machine sleeps
    computer.ahead_s = 100.0
    asked = computer.clock.steady()
    for _ in range(2):
        computer.clock.learn(formatdate(NOON + 100.2, usegmt=True), asked=asked, answered=asked)
    assert computer.clock.now() == pytest.approx(NOON + 100.2, abs=1.0)


@pytest.mark.parametrize("wrong_by_s", [-86_400.0, -60.0, 60.0, 93_600.0])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_single_wrong_answer_is_not_believed(wrong_by_s: float, is_first: bool) -> None:
    computer = Computer()
    if not is_first:
        computer.answer()
    assert not computer.answer(wrong_by_s=wrong_by_s)
    assert computer.clock.now() == pytest.approx(computer.cloud_now, abs=1.0)
    assert computer.answer()
    assert not computer.answer(wrong_by_s=wrong_by_s)
    assert computer.clock.now() == pytest.approx(computer.cloud_now, abs=1.0)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026 12:00:00 GMT", "9" * 400])
def test_a_date_that_cannot_be_read_teaches_nothing(date: str) -> None:
    computer = Computer(HOUR_S)
    computer.clock.learn(date, asked=0.0, answered=0.0)
    assert computer.clock.now() == computer.cloud_now + HOUR_S


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [
        (HOUR_S - 0.3, "clock is 1 h ahead. Correct it"),
        (-HOUR_S - 0.3, "clock is 1 h behind. Correct it"),
        (-43.0, "clock is 40 s behind."),
    ],
)
def test_the_notice_says_how_wrong_and_which_way(ahead_s: float, words: str) -> None:
    computer = Computer(ahead_s)
    computer.answer()
    computer.answer()
    assert words in computer.clock.notice


def test_the_virtual_time_of_an_emulated_cloud_is_followed_at_its_rate_and_over_jumps() -> None:
    computer = Computer(ahead_s=5 * HOUR_S)
    seen_at = computer.clock.steady()
    assert computer.clock.follow(f"{NOON} 10", asked=0.0, answered=0.0)
    computer.passed_s += 60
    clock, wall = computer.clock, computer.cloud_now + computer.ahead_s
    assert clock.now() == NOON + 600
    assert clock.moment(seen_at).wall == NOON
    assert (clock.to_local(NOON), clock.to_real(NOON), clock.to_cloud(wall - 60)) == (wall - 60, wall - 60, NOON)
    assert NOON + clock.ahead_at(NOON) == wall - 60
    assert clock.notice == ""
    assert clock.real_s(15) == 1.5
    # a jump, and time stands still
    assert clock.follow(f"{NOON + 5000} 0", asked=computer.passed_s, answered=computer.passed_s)
    computer.passed_s += 60
    assert clock.now() == NOON + 5000
    assert clock.to_real(clock.now()) == computer.cloud_now + computer.ahead_s
    assert clock.real_s(15) == 15


@pytest.mark.parametrize("text", ["", "1", "now 1", "nan 1", "1 inf", "1 -1", "1 2 3"])
def test_a_virtual_time_that_cannot_be_read_changes_nothing(text: str) -> None:
    computer = Computer()
    assert not computer.clock.follow(text, asked=0.0, answered=0.0)
    assert computer.clock.now() == computer.cloud_now
