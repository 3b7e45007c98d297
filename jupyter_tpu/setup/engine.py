"""Check the setup steps in order and perform their actions.

Checks change nothing and cost nothing. An action does exactly what the step's attribute `does` describes, and may be
repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, MutableMapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_tpu.autostop import DEFAULT_RULES
from jupyter_tpu.cloud.credentials import FoundCredentials, find_credentials, read_credentials_file
from jupyter_tpu.cloud.services.project_setup import (
    enable_tpu_api,
    link_billing_account,
    list_billing_accounts,
    read_billing,
)
from jupyter_tpu.cloud.services.quotas import read_limits
from jupyter_tpu.cloud.settings import CREDENTIALS_VARIABLE, PROJECT_VARIABLE, CloudSettings
from jupyter_tpu.errors import ApiDisabled, BadInput, CredentialsMissing, NotAllowlisted, Text, TpuError
from jupyter_tpu.fleet.assembly import open_cloud
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.saved_choices import save_choice
from jupyter_tpu.money.days import day_of
from jupyter_tpu.money.project_ids import check_project
from jupyter_tpu.money.quota import QuotaLimits
from jupyter_tpu.setup.steps import KEYS, LOGIN_COMMAND, PERFORMED, Step, failed, waiting

BUDGET_NAME = "weekly"
"""Name of the budget that the setup creates."""
SUGGESTED_USD = 50
"""Suggested amount of that budget in US dollars: our choice, about a week of evenings on a spot v5e node of 8 chips."""

_NO_QUOTA = Text(
    "The project has no TPU quota. Ask Google for quota, or apply for a grant from the TPU Research Cloud."
)
_IDLE_HOURS = round((DEFAULT_RULES.idle_after_s or 0) / 3600)
# Maximum age of a rejection. An older rejection doesn't show what the project may use today.
_REFUSED_WITHIN_S = 30 * 86400.0


class SetupEngine:
    """The setup of one cloud.

    Args:
        settings: the user's settings; the project may be missing.
        environment: this process's environment variables, in which choices are also saved.
        is_project_fixed: whether the project is configured in a place that this engine can't change.
    """

    def __init__(
        self, settings: CloudSettings, environment: MutableMapping[str, str], *, is_project_fixed: bool = False
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._is_project_fixed = is_project_fixed

    async def check(self) -> tuple[Step, ...]:
        """Check all steps. If a check fails, its step contains the error; no exception is raised."""
        credentials, found = await self._credentials()
        if credentials.state != "done":
            return (credentials, *_waiting_from("project", Text("Checked once credentials are found.")))
        settings = replace(self._settings, project=self._settings.project or (found.project if found else ""))
        if not settings.project:
            return (credentials, self._no_project(), *_waiting_from("api", Text("Checked once a project is selected.")))
        api = await _api(settings)
        if isinstance(api.error, CredentialsMissing):
            expired = replace(credentials, state="failed", text=api.text, error=api.error, command=LOGIN_COMMAND)
            return (expired, *_waiting_from("project", Text("Checked once Google accepts the credentials.")))
        project, quota, budget = await asyncio.gather(
            self._project(settings), _quota(settings, api), asyncio.to_thread(_budget, settings)
        )
        return (credentials, project, api, quota, budget)

    async def perform(self, action: str, values: Mapping[str, Any]) -> None:
        """Perform the action of a step.

        Args:
            action: one of `PERFORMED`.
            values: ``path`` for use_credentials, ``project`` for use_project, ``account`` for link_billing, ``usd`` for
                set_budget.

        Raises:
            BadInput: there is no such action, or a value is missing or invalid.
            TpuError: the action was rejected.
        """
        if action not in PERFORMED:
            raise BadInput(
                Text("{action} is not a setup action.", action=repr(action[:70])),
                hint="Send an action that one of the setup steps lists.",
            )
        await getattr(self, f"_{action}")(values)

    # -- checks

    async def _credentials(self) -> tuple[Step, FoundCredentials | None]:
        if self._settings.is_emulated:
            return Step(key="credentials", state="done", text=Text("The emulated cloud needs no credentials.")), None
        try:
            found = await asyncio.to_thread(find_credentials, self._environment)
        except TpuError as error:
            return self._with_file(failed("credentials", error)), None
        if found is None:
            missing = Step(key="credentials", state="to_do", text=Text("No Google Cloud credentials were found."))
            return self._with_file(missing), None
        return Step(key="credentials", state="done", text=_found_text(found)), found

    def _with_file(self, step: Step) -> Step:
        does = Text("Uses this file for Cloud TPU from now on. The file is not copied, and nothing is sent.")
        return replace(step, action="use_credentials", does=does, command=LOGIN_COMMAND)

    def _no_project(self) -> Step:
        return Step(
            key="project",
            state="to_do",
            text=Text("No Google Cloud project is selected."),
            action="use_project",
            does=Text("Uses this project for Cloud TPU from now on. Nothing is created in it."),
        )

    async def _project(self, settings: CloudSettings) -> Step:
        try:
            billing = await read_billing(settings)
        except TpuError as error:
            step = failed("project", error, "unknown")
            return replace(step, text=Text("Project {project}. Billing can't be read.", project=settings.project))
        if billing.is_on:
            return Step(
                key="project",
                state="done",
                text=Text("Project {project}. Billing is enabled.", project=settings.project),
            )
        return await _without_billing(settings)

    # -- actions

    async def _use_credentials(self, values: Mapping[str, Any]) -> None:
        await asyncio.to_thread(_use_file, _text(values, "path"), self._environment)

    async def _use_project(self, values: Mapping[str, Any]) -> None:
        project = _text(values, "project")
        if self._is_project_fixed:
            raise BadInput(
                "The project is set in the configuration of this Jupyter server.",
                hint="Change the configuration and restart the server.",
            )
        check_project(project)
        await asyncio.to_thread(save_choice, PROJECT_VARIABLE, project, self._environment)

    async def _link_billing(self, values: Mapping[str, Any]) -> None:
        await link_billing_account(await self._with_project(), _text(values, "account"))

    async def _enable_api(self, values: Mapping[str, Any]) -> None:  # noqa: ARG002 - every action gets the values
        await enable_tpu_api(await self._with_project())

    async def _set_budget(self, values: Mapping[str, Any]) -> None:
        body = {"amount": values.get("usd"), "unit": "usd", "period": "week", "action": "stop"}
        await asyncio.to_thread(_set_budget, await self._with_project(), body)

    async def _with_project(self) -> CloudSettings:
        async with open_cloud(self._settings) as cloud:  # opening the cloud makes no request yet
            return cloud.settings


def _use_file(path: str, environment: MutableMapping[str, str]) -> None:
    read_credentials_file(path)
    # save the absolute path, so that a process in another folder finds the file too
    save_choice(CREDENTIALS_VARIABLE, str(Path(path).expanduser().resolve()), environment)


def _waiting_from(key: str, text: Text) -> tuple[Step, ...]:
    keys = list(KEYS)
    return tuple(waiting(each, text) for each in keys[keys.index(key) :])  # type: ignore[arg-type]  # it is one of them


def _found_text(found: FoundCredentials) -> Text:
    account = found.account or "unknown account"
    if found.place == "chosen":
        return Text("Credentials from {file} ({account}).", file=found.file, account=account)
    if found.place == "variable":
        return Text(
            "Credentials from {file} ({account}), set by $GOOGLE_APPLICATION_CREDENTIALS.",
            file=found.file,
            account=account,
        )
    if found.place == "gcloud":
        return Text("Credentials from gcloud ({file}).", file=found.file)
    return Text("Credentials from this machine ({account}).", account=account)


async def _without_billing(settings: CloudSettings) -> Step:
    text = Text(
        "Project {project} has no billing account. Nodes need one, even under a grant.", project=settings.project
    )
    step = Step(
        key="project",
        state="to_do",
        text=text,
        action="open_billing",
        does=Text("Opens the page of the Google Cloud console where you link a billing account."),
        target=settings.project,
    )
    try:
        accounts = await list_billing_accounts(settings)
    except TpuError:
        return step
    if len(accounts) != 1:  # with several accounts, the user chooses one in the console, which shows all of them
        return step
    (account,) = accounts
    does = Text(
        "Links project {project} to the billing account {account}, which then pays for the project's "
        "usage. Linking itself is free.",
        project=settings.project,
        account=account.title,
    )
    return replace(step, action="link_billing", does=does, target=account.name)


async def _api(settings: CloudSettings) -> Step:
    try:
        async with open_cloud(settings) as cloud:
            zones = await cloud.list_zones()
    except ApiDisabled as error:
        return Step(
            key="api",
            state="to_do",
            text=Text("The Cloud TPU API is not enabled in project {project}.", project=settings.project),
            action="enable_api",
            does=Text(
                "Enables tpu.googleapis.com in project {project}. This is free; it can take a few minutes.",
                project=settings.project,
            ),
            error=error,
        )
    except TpuError as error:
        return failed("api", error)
    return Step(key="api", state="done", text=Text("The Cloud TPU API is responding: {count} zones.", count=len(zones)))


async def _quota(settings: CloudSettings, api: Step) -> Step:
    if api.state != "done":
        return waiting("quota", Text("Checked once the Cloud TPU API responds."))
    grants, refused = await asyncio.to_thread(_grants_and_refusals, settings)
    try:
        limits = await read_limits(settings)
    except TpuError as error:
        return _with_grant(failed("quota", error, "unknown"), grants)
    return _with_grant(quota_step(limits, grants, refused), grants)


def quota_step(limits: QuotaLimits, grants: tuple[str, ...], refused: tuple[str, str] | None) -> Step:
    """Return the quota step, without its action.

    Args:
        grants: names of the current grants.
        refused: accelerator type and zone of the last node creation that the allow-list rejected.
    """
    if refused:
        kind, zone = refused
        text = Text("Google refused {kind} in {zone}: the project is not on its allow-list.", kind=kind, zone=zone)
        return Step(key="quota", state="failed", text=text)
    generations = ", ".join(sorted({quota.generation for (quota, _), value in limits.values.items() if value}))
    if not generations:
        return Step(key="quota", state="to_do", text=_NO_QUOTA)
    names = ", ".join(grants)
    text = (
        Text("Quota for {generations}. Grants: {grants}.", generations=generations, grants=names)
        if grants
        else Text("Quota for {generations}. No TRC grant is entered (optional).", generations=generations)
    )
    return Step(key="quota", state="done", text=text)


def _with_grant(step: Step, grants: tuple[str, ...]) -> Step:
    """Return the step; if there is no grant yet, its action is to enter the grant from a TRC email."""
    if grants:
        return step
    does = Text(
        "Enters the grant from a TPU Research Cloud email. Nodes that the grant covers then count as free. "
        "Nothing is sent."
    )
    return replace(step, action="add_grant", does=does)


def _grants_and_refusals(settings: CloudSettings) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the names of the current grants, and the type and zone of the last node that the allow-list rejected."""
    now = time.time()
    place = {"endpoint": settings.endpoint, "project": settings.project}
    with closing(Journal.of_user(settings.endpoint)) as journal:
        try:
            grants = Grants(journal, **place).read().grants
            intents = journal.listed(now - _REFUSED_WITHIN_S, **place)
        except TpuError:  # the budget step reports an unreadable journal
            return (), None
    names = tuple(each.name for each in grants if not each.is_over(day_of(now)))
    refused = [each for each in intents if isinstance(each.error, NotAllowlisted) and each.spec]
    newest = max(refused, key=lambda each: each.updated_at, default=None)
    return names, (newest.spec.accelerator_type, newest.node_name.zone) if newest and newest.spec else None


def _budget(settings: CloudSettings) -> Step:
    try:
        with closing(Journal.of_user(settings.endpoint)) as journal:
            has_budgets = SpendLedger(journal, settings).has_budgets()
    except TpuError as error:
        return failed("budget", error)
    if has_budgets:
        return Step(
            key="budget",
            state="done",
            text=Text("A budget is set. The idle timeout of new nodes is {hours} h.", hours=_IDLE_HOURS),
        )
    return Step(
        key="budget",
        state="to_do",
        text=Text("No budget is set. The idle timeout of new nodes is {hours} h.", hours=_IDLE_HOURS),
        action="set_budget",
        does=Text("Sets a weekly budget. When it is used up, your nodes are stopped and you can't create new ones."),
    )


def _set_budget(settings: CloudSettings, body: dict[str, Any]) -> None:
    with closing(Journal.of_user(settings.endpoint)) as journal:
        SpendLedger(journal, settings).set_budget(BUDGET_NAME, body, now=time.time())


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > 4096 or not value.isprintable():
        raise BadInput(Text("The field {field} is missing or is not text.", field=repr(name)), hint="Enter a value.")
    return value.strip()
