"""``%%tpu_on_preempt`` in a shell that no agent has started."""

from __future__ import annotations


def test_a_hook_can_be_shown_tried_and_forgotten(run_cells) -> None:
    run = run_cells(
        "steps = 3",
        "%%tpu_on_preempt\nprint('saved after', steps)",
        "%tpu_on_preempt --show",
        "%tpu_on_preempt --test",
        "%tpu_on_preempt --clear",
        "%tpu_on_preempt",
    )
    assert run.succeeded, run.text
    assert "so the hook never runs" in run.text
    assert "print('saved after', steps)" in run.text
    assert "saved after 3\nThe hook ran in" in run.text
    assert "Hook cleared" in run.text
    assert "This kernel has no hook. Start a cell with `%%tpu_on_preempt`" in run.text


def test_what_cannot_be_run_is_refused_at_once(run_cells) -> None:
    run = run_cells(
        "%%tpu_on_preempt\nsaved = (", "%%tpu_on_preempt\n \n", "%tpu_on_preempt --soon", "%tpu_on_preempt --test"
    )
    assert not run.succeeded
    assert "SyntaxError" in run.text
    assert "The cell has no code to run." in run.text
    assert "%tpu_on_preempt has no argument '--soon'." in run.text
    assert run.text.count("BadInput") == 3
