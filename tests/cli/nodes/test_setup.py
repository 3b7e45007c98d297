"""`jupyter tpu setup` says what is missing, does it when told to, and its exit code says whether that was all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal


def test_without_consent_nothing_is_done(terminal: Terminal) -> None:
    terminal.cloud.set_project(api_enabled=False)

    shown = terminal.tpu("setup")

    assert shown.returncode == 1
    assert "not enabled" in shown.stdout
    assert terminal.cloud.project()["api_enabled"] is False


def test_with_consent_the_api_is_enabled_and_a_budget_set(terminal: Terminal) -> None:
    terminal.cloud.set_project(api_enabled=False)

    done = terminal.tpu("setup", "--yes", "--budget", "20", JUPYTER_TPU_EMULATOR=terminal.rest)

    assert done.returncode == 0, done.stderr
    assert "Ready" in done.stdout
    assert terminal.cloud.project()["api_enabled"] is True
    (budget,) = terminal.tpu_json("budget")["budgets"]
    assert (budget["amount"], budget["period"]) == (20, "week")
    again = terminal.tpu_json("setup", JUPYTER_TPU_EMULATOR=terminal.rest)
    assert again["is_complete"]
    assert [step["state"] for step in again["steps"]] == ["done"] * 5


def test_without_credentials_it_says_how_to_get_them(terminal: Terminal) -> None:
    shown = terminal.tpu("setup", JUPYTER_TPU_ENDPOINT="", NO_GCE_CHECK="true")

    assert shown.returncode == 1
    assert "gcloud auth application-default login" in shown.stderr
    assert "jupyter tpu demo" in shown.stderr
