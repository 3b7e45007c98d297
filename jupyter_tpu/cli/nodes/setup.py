"""The command `setup`: check and complete the steps that are required to create the first node."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import can_ask, echo, echo_json, echo_table, is_confirmed, note, plain, report
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.i18n import _
from jupyter_tpu.setup.steps import PERFORMED, Step, is_complete

if TYPE_CHECKING:
    from jupyter_tpu.setup.engine import SetupEngine

_HEADER = ("STEP", "STATE", "")
_TITLES = {
    "credentials": Text("Credentials"),
    "project": Text("Project and billing"),
    "api": Text("Cloud TPU API"),
    "quota": Text("Quota and grant"),
    "budget": Text("Budget and auto-stop"),
}
_STATES = {"done": Text("done"), "to_do": Text("to do"), "unknown": Text("unknown"), "failed": Text("failed")}
_GRANT_NAME = "trc"
_MOST_ROUNDS = 20  # bounds the rounds if a step's action never changes its state


def run_setup(options: argparse.Namespace) -> int:
    """Check all steps and complete the missing steps; return exit code 1 if any step is still missing."""
    steps = asyncio.run(_set_up(options))
    if options.json:
        echo_json({"is_complete": is_complete(steps), "steps": [step.to_json() for step in steps]})
    else:
        _show(steps)
    return 0 if is_complete(steps) else 1


async def _set_up(options: argparse.Namespace) -> tuple[Step, ...]:
    await _use_what_is_given(options)
    done: set[str] = set()
    steps = await _engine(options).check()
    for _round in range(_MOST_ROUNDS):
        step = next((each for each in steps if _is_open(each) and each.action not in done), None)
        if step is None:
            break
        # try each action once: don't ask again after a "no", and don't repeat a failed action
        done.add(step.action)
        if await _do(options, step):
            steps = await _engine(options).check()
    return steps


def _engine(options: argparse.Namespace) -> SetupEngine:
    from jupyter_tpu.setup.engine import SetupEngine

    return SetupEngine(cloud_settings(options), os.environ)


async def _use_what_is_given(options: argparse.Namespace) -> None:
    """Save the credentials file, project and grant from the options, so that the checks use them."""
    engine = _engine(options)
    if options.credentials:
        await engine.perform("use_credentials", {"path": options.credentials})
    if options.project and not cloud_settings(options).is_emulated:
        await engine.perform("use_project", {"project": options.project})
    if options.trc_mail:
        await asyncio.to_thread(_add_grant, options, options.trc_mail)


def _is_open(step: Step) -> bool:
    # a grant is optional, so its step may be done without one: still offer to add it
    return step.action == "add_grant" or (step.state in ("to_do", "failed") and step.action in PERFORMED)


async def _do(options: argparse.Namespace, step: Step) -> bool:
    """Perform a step's action if the user agrees; return whether it was performed."""
    values = _agreed(options, step)
    if values is None:
        return False
    try:
        if step.action == "add_grant":
            await asyncio.to_thread(_add_grant, options, values["mail"])
        else:
            await _engine(options).perform(step.action, values)
    except TpuError as error:
        if options.json:
            raise
        report(error, as_json=False)
        return False
    return True


def _agreed(options: argparse.Namespace, step: Step) -> Mapping[str, Any] | None:
    """Return the values for the action, or None if the user declines or a value is missing."""
    is_asking = can_ask() and not options.yes and not options.json
    if is_asking:
        note(f"\n{_(_TITLES[step.key])}: {plain(_(step.text))}\n  {plain(_(step.does))}")
    if step.action in ("use_credentials", "use_project", "add_grant"):
        name, question = {
            "use_credentials": ("path", _("Credentials file (Enter to skip)")),
            "use_project": ("project", _("Project ID (Enter to skip)")),
            "add_grant": ("mail", _("File with the email (Enter to skip)")),
        }[step.action]
        answer = _typed(question) if is_asking else ""
        return {name: answer} if answer else None
    if step.action == "set_budget":
        return _budget(options, is_asking=is_asking)
    # --yes alone must not decide who pays
    may = options.yes and (step.action != "link_billing" or options.link_billing)
    is_agreed = may or (is_asking and is_confirmed(_("Continue?")))
    return {"account": step.target} if is_agreed else None


def _add_grant(options: argparse.Namespace, mail: str) -> None:
    """Add the grant from an email, like `grant add`: show the parsed values, and ask the user to confirm them."""
    from jupyter_tpu.cli.spend.grant import enter_grant, validity

    unset = dict.fromkeys(("credit", "starts_on", "days", "ends_on"))
    given = {**vars(options), **unset, "name": _GRANT_NAME, "mail": mail, "row": [], "skip_unread": False}
    try:
        grant, _problems = enter_grant(argparse.Namespace(**given))
    except BadInput as error:
        # the hint may name options that this command does not have
        hint = Text("{hint} All options: `jupyter tpu grant add {name} --help`", hint=error.hint, name=_GRANT_NAME)
        raise BadInput(error.message, exists=error.exists, hint=hint, raw=error.raw) from error
    note(validity(grant))


def _budget(options: argparse.Namespace, *, is_asking: bool) -> Mapping[str, Any] | None:
    from jupyter_tpu.setup.engine import SUGGESTED_USD

    if options.budget is not None or options.yes:
        return {"usd": SUGGESTED_USD if options.budget is None else options.budget}
    question = _("Budget in US dollars per week (such as {usd}; Enter to skip)", usd=SUGGESTED_USD)
    answer = _typed(question) if is_asking else ""
    try:
        return {"usd": float(answer)} if answer else None
    except ValueError:
        note(_("{answer} is not an amount; no budget was set.", answer=f"{answer[:40]!r}"))
        return None


def _typed(question: str) -> str:
    print(_("{question}: ", question=question), end="", file=sys.stderr, flush=True)  # noqa: T201 - a prompt has no line end
    return sys.stdin.readline().strip()


def _show(steps: Sequence[Step]) -> None:
    echo_table(_HEADER, ((_TITLES[each.key], _STATES[each.state], _(each.text)) for each in steps))
    for each in steps:
        for line in _advice(each):
            note(_("{topic}: {text}", topic=_(_TITLES[each.key]), text=plain(line)))
    if is_complete(steps):
        echo(_("Ready: create a node with `jupyter tpu create`, or in the TPU panel of JupyterLab."))
    elif steps[0].state == "done":  # the user has an account
        note(_("Set-up is not complete."))
    else:
        note(
            _(
                "Set-up is not complete. If you have no account, `jupyter tpu demo` runs everything on an emulated "
                "cloud."
            )
        )


def _advice(step: Step) -> list[str]:
    if step.state == "done":
        return []
    found = [_(step.error.hint)] if step.error and step.error.hint else []
    if step.command and step.command not in "".join(found):
        found.append(
            _("Run `{command}`, or specify a file: `jupyter tpu setup --credentials FILE`", command=step.command)
        )
    if step.action == "use_project":
        found.append(_("Specify the project: `jupyter tpu setup --project ID`"))
    if step.action == "open_billing":
        found.append(f"https://console.cloud.google.com/billing/linkedaccount?project={step.target}")
    if step.action == "add_grant":
        found.append(_("If you have a TRC email, run `jupyter tpu setup --trc-mail FILE`."))
    if step.action == "set_budget":
        from jupyter_tpu.setup.engine import SUGGESTED_USD

        found.append(_("Set a budget: `jupyter tpu setup --budget {usd}`", usd=SUGGESTED_USD))
    return found
