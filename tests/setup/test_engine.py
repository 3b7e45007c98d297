"""The set-up finds what is missing, says what it would do, and does that and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cloud.services.quotas import read_limits
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import BadInput, NotAllowlisted
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.saved_choices import apply_saved_choices, saved_choices
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.setup.engine import SetupEngine, quota_step
from jupyter_tpu.setup.steps import Step, is_complete

BILLING_ACCOUNT = "billingAccounts/01E5D0-7B0000-00DE30"
USER_FILE = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}


@pytest.fixture
def nowhere(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any credentials, on no VM of Google's; returns our data folder."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("JUPYTER_TPU_CREDENTIALS", "JUPYTER_TPU_PROJECT"):  # which actions set
        monkeypatch.setenv(name, "")
    return data_dir


@pytest.fixture
def settings(emulator: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> CloudSettings:
    """The emulated cloud, and a user who has done nothing yet."""
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", emulator.rest)
    assert not data_dir.exists()
    found: CloudSettings = emulator.settings
    return found


def check(settings: CloudSettings) -> dict[str, Step]:
    return {step.key: step for step in asyncio.run(SetupEngine(settings, os.environ).check())}


def perform(settings: CloudSettings, action: str, **values: Any) -> None:
    asyncio.run(SetupEngine(settings, os.environ).perform(action, values))


def states(steps: dict[str, Step]) -> list[str]:
    return [step.state for step in steps.values()]


def put_billing(rest: str, project: str, account: str) -> None:
    url, body = f"{rest}/v1/projects/{project}/billingInfo", json.dumps({"billingAccountName": account}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="PUT")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
        pass


def test_without_credentials_only_that_is_to_do(nowhere: Path) -> None:
    steps = check(CloudSettings(project="some-project"))

    assert states(steps) == ["to_do", "unknown", "unknown", "unknown", "unknown"]
    assert steps["credentials"].action == "use_credentials"
    assert steps["credentials"].command == "gcloud auth application-default login"
    assert not is_complete(steps.values())
    assert not nowhere.exists()  # a check writes nothing


def test_credentials_of_a_file_are_used_from_then_on_by_every_process(nowhere: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(USER_FILE))

    perform(CloudSettings(), "use_credentials", path=str(file))

    steps = check(CloudSettings())
    assert states(steps)[:2] == ["done", "to_do"]
    assert steps["project"].action == "use_project"
    later: dict[str, str] = {}
    apply_saved_choices(later)
    assert later == {"JUPYTER_TPU_CREDENTIALS": str(file)}
    # what the user sets in the environment wins
    other = {"JUPYTER_TPU_CREDENTIALS": "/elsewhere.json"}
    apply_saved_choices(other)
    assert other == {"JUPYTER_TPU_CREDENTIALS": "/elsewhere.json"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"type": "external_account"}', "\x00" * 9],
    ids=["empty", "list", "no type", "other", "nul"],
)
def test_a_file_without_usable_credentials_is_refused_and_nothing_saved(
    nowhere: Path, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(content)

    with pytest.raises(BadInput, match=r"mine\.json") as refused:
        perform(CloudSettings(), "use_credentials", path=str(file))

    assert "secret" not in str(refused.value)
    assert saved_choices() == {}


@pytest.mark.parametrize("path", ["/nowhere/mine.json", "~no-such-user/mine.json", "\ud800.json"])
def test_a_file_that_is_not_there_is_refused(nowhere: Path, path: str) -> None:
    with pytest.raises(BadInput):
        perform(CloudSettings(), "use_credentials", path=path)

    assert saved_choices() == {}


def test_only_choices_of_the_set_up_are_read_from_the_file(nowhere: Path) -> None:
    perform(CloudSettings(), "use_project", project="my-project")
    (file,) = nowhere.glob("*.json")
    assert file.stat().st_mode & 0o077 == 0
    saved = json.loads(file.read_text())
    file.write_text(json.dumps({**saved, "JUPYTER_TPU_TRUST_ENDPOINT": "elsewhere.example", "PATH": "/tmp"}))

    found: dict[str, str] = {}
    apply_saved_choices(found)

    assert found == {"JUPYTER_TPU_PROJECT": "my-project"}


def test_the_chosen_project_is_saved(nowhere: Path) -> None:
    perform(CloudSettings(), "use_project", project="my-project")

    assert saved_choices() == {"JUPYTER_TPU_PROJECT": "my-project"}
    with pytest.raises(BadInput):
        perform(CloudSettings(), "use_project", project="12345")
    with pytest.raises(BadInput):
        perform(CloudSettings(), "use_project", project="")
    assert saved_choices() == {"JUPYTER_TPU_PROJECT": "my-project"}


def test_a_new_project_is_set_up_step_by_step(settings: CloudSettings, emulator: Any) -> None:
    put_billing(emulator.rest, settings.project, "")
    emulator.control.set_project(api_enabled=False)

    steps = check(settings)
    assert states(steps) == ["done", "to_do", "to_do", "unknown", "to_do"]
    assert (steps["project"].action, steps["project"].target) == ("link_billing", BILLING_ACCOUNT)
    assert "which then pays" in steps["project"].does

    perform(settings, "link_billing", account=BILLING_ACCOUNT)
    perform(settings, "enable_api")
    perform(settings, "enable_api")  # again: harmless
    steps = check(settings)
    assert states(steps) == ["done", "done", "done", "done", "to_do"]
    assert "v5e" in steps["quota"].text
    assert steps["quota"].action == "add_grant"  # optional
    assert is_complete(steps.values())  # a budget is recommended, not necessary

    perform(settings, "set_budget", usd=50)
    steps = check(settings)
    assert states(steps) == ["done"] * 5
    assert is_complete(steps.values())
    assert emulator.control.ledger()["total_usd"] == 0


def test_what_may_not_be_read_is_unknown_and_keeps_nobody_from_a_node(settings: CloudSettings, emulator: Any) -> None:
    emulator.control.set_project(denied_permissions=["resourcemanager.projects.get"])
    perform(settings, "set_budget", usd=50)

    steps = check(settings)

    assert steps["project"].state == "unknown"
    assert steps["project"].error is not None
    assert is_complete(steps.values())


def test_no_quota_is_to_do(settings: CloudSettings, emulator: Any) -> None:
    emulator.control.set_project(quota_profile="new_project")
    limits = asyncio.run(read_limits(settings))

    assert quota_step(limits, (), None).text.startswith("Quota for v2, v3, v5e.")
    none = replace(limits, values=dict.fromkeys(limits.values, 0))
    assert quota_step(none, ("trc",), None).state == "to_do"


def test_a_refusal_by_the_allow_list_is_named(settings: CloudSettings, data_dir: Path) -> None:
    name = NodeName(project=settings.project, zone="us-east5-a", node_id="mine")
    spec = NodeSpec(name=name, accelerator_type="v5p-8", runtime_version="v2-alpha-tpuv5")
    data_dir.mkdir()
    with closing(Journal.of_user()) as journal:
        intent = Intent(
            intent_id="i-1",
            verb="create",
            node_name=name,
            endpoint=settings.endpoint,
            spec=spec,
            phase="failed",
            error=NotAllowlisted("no"),
            settled=True,
            created_at=time.time(),
            updated_at=time.time(),
            owner=journal.owner,
        )
        journal.begin(intent)
        journal.save(intent)

    step = check(settings)["quota"]

    assert step.state == "failed"
    assert "v5p-8 in us-east5-a" in step.text


def test_no_project_is_to_do(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(USER_FILE))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    steps = check(CloudSettings())

    assert states(steps) == ["done", "to_do", "unknown", "unknown", "unknown"]


@pytest.mark.parametrize("action", ["", "check", "_credentials", "open_billing"])
def test_only_the_actions_of_steps_are_performed(action: str, nowhere: Path) -> None:
    with pytest.raises(BadInput):
        perform(CloudSettings(), action)
