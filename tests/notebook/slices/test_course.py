from __future__ import annotations

from jupyter_tpu.notebook.slices.course import Course, Limits, Step

LIMITS = Limits(grace_s=2, last_wait_s=5)


def test_a_cell_is_over_when_all_workers_have_ended():
    course = Course([0, 1], LIMITS)
    course.end(1, 10, failed=False)
    assert not course.is_over
    assert course.next_at is None
    course.end(0, 11, failed=False)
    assert course.is_over
    assert not course.failed


def test_after_a_failure_the_others_get_a_grace_an_interrupt_and_a_last_wait():
    course = Course([0, 1, 2], LIMITS)
    course.end(0, 9, failed=False)
    course.end(2, 10, failed=True)
    assert [course.due(11), course.due(12), course.due(16), course.due(17), course.due(18)] == [
        None,
        Step.INTERRUPT,
        None,
        Step.GIVE_UP,
        None,
    ]
    assert course.is_over
    assert course.running == {1}


def test_worker_0_is_not_given_up():
    course = Course([0, 1], LIMITS)
    course.lose(1, 10)
    assert course.due(12) is Step.INTERRUPT
    assert course.due(17) is Step.GIVE_UP
    assert not course.is_over
    course.end(0, 30, failed=True)
    assert course.is_over


def test_the_users_interrupt_needs_no_second_one():
    course = Course([0, 1], LIMITS)
    course.interrupt(3)
    course.end(0, 3.1, failed=True)
    assert course.due(6) is None
    assert course.due(8) is Step.GIVE_UP


def test_a_worker_that_ended_is_not_lost_to_the_cell():
    course = Course([0, 1], LIMITS)
    course.end(1, 1, failed=False)
    course.lose(1, 2)
    assert not course.failed
