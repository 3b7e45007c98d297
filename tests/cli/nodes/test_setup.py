"""`jupyter tpu setup` says what is missing, does it when told to, and exits with 0 if nodes can be created."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Terminal


def test_without_consent_nothing_is_done(terminal: Terminal) -> None:
    terminal.cloud.set_project(api_enabled=False)

    shown = terminal.tpu("setup")

    assert shown.returncode == 1
    assert "not enabled" in shown.stdout
    assert "jupyter tpu setup --budget 50" in shown.stderr
    assert "no account" not in shown.stderr
    assert terminal.cloud.project()["api_enabled"] is False


def test_without_a_budget_nodes_can_be_created(terminal: Terminal) -> None:
    terminal.cloud.set_project(api_enabled=True)

    shown = terminal.tpu("setup", JUPYTER_TPU_EMULATOR=terminal.rest)

    assert shown.returncode == 0, shown.stderr
    assert "No budget is set." in shown.stdout
    assert "jupyter tpu setup --budget 50" in shown.stderr
    assert "Ready" in shown.stdout
    assert terminal.tpu_json("setup", JUPYTER_TPU_EMULATOR=terminal.rest)["is_complete"]


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


def test_the_email_of_a_grant_is_entered_on_the_way(terminal: Terminal, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text("You have access for 30 days to:\n\n32 on-demand Cloud TPU v4 chips in zone us-central2-b\n")
    give = ("setup", "--yes", "--trc-mail", str(mail))

    undated = terminal.tpu(*give, JUPYTER_TPU_EMULATOR=terminal.rest)
    assert (undated.returncode, terminal.tpu_json("grant", "list")["grants"]) == (1, [])
    assert "Add --starts-on DATE" in undated.stderr
    assert "jupyter tpu grant add trc" in undated.stderr

    mail.write_text(f"Date: {formatdate()}\n\n{mail.read_text()}")
    done = terminal.tpu(*give, JUPYTER_TPU_EMULATOR=terminal.rest)
    assert done.returncode == 0, done.stderr
    assert "read: 32 on-demand v4 chips in us-central2-b" in done.stderr
    assert "Grants: trc" in done.stdout
    (grant,) = terminal.tpu_json("grant", "list")["grants"]
    assert (grant["name"], [row["chips"] for row in grant["rows"]]) == ("trc", [32])

    # a new email, although a grant is entered
    mail.write_text(mail.read_text().replace("32 on-demand", "64 on-demand"))
    assert terminal.tpu(*give, JUPYTER_TPU_EMULATOR=terminal.rest).returncode == 0
    (grant,) = terminal.tpu_json("grant", "list")["grants"]
    assert [row["chips"] for row in grant["rows"]] == [64]


def test_without_credentials_it_says_how_to_get_them(terminal: Terminal) -> None:
    shown = terminal.tpu("setup", JUPYTER_TPU_ENDPOINT="", NO_GCE_CHECK="true")

    assert shown.returncode == 1
    assert "gcloud auth application-default login" in shown.stderr
    assert "jupyter tpu demo" in shown.stderr
