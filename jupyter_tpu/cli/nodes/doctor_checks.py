"""The doctor's read-only checks of this machine, the project and, over the network, a node."""

from __future__ import annotations

import platform
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_tpu import __version__
from jupyter_tpu.cli.nodes.find import find_node
from jupyter_tpu.diagnostics import FAULT, OK, UNKNOWN, WARNING, Finding
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import (
    ApiDisabled,
    CredentialsMissing,
    PermissionDenied,
    TpuError,
)
from jupyter_tpu.fleet.spend.enforcer import can_stop
from jupyter_tpu.frameworks import runtime_version_fits
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet.spend.quota_report import QuotaReport
    from jupyter_tpu.models import Node

_GIB = 2**30
# our own estimates: with less disk space, the journal may soon fail; a smaller clock difference does no harm
_LEAST_DISK_BYTES = _GIB
_MOST_CLOCK_S = 30.0
_EXTENSION = "labextensions/jupyter-tpu/package.json"
_SERVER_EXTENSION = "jupyter_server_config.d/jupyter_tpu.json"


# -- this machine


def examine_here() -> Iterator[Finding]:
    """Check the installation, the SSH key, the journal and the disk."""
    yield Finding(
        check="version",
        state=OK,
        text=_(
            "jupyter_tpu {version} on Python {python_version}.",
            version=__version__,
            python_version=platform.python_version(),
        ),
    )
    yield _extensions()
    yield _ssh_key()
    yield from _journal()
    yield _disk()


def _extensions() -> Finding:
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    # look for the files, which is possible without starting Jupyter
    wanted = {"JupyterLab": (jupyter_path(), _EXTENSION), "server": (jupyter_config_path(), _SERVER_EXTENSION)}
    missing = [what for what, (roots, name) in wanted.items() if not any(Path(root, name).is_file() for root in roots)]
    if not missing:
        return Finding(check="JupyterLab", state=OK, text=_("The JupyterLab and server extensions are installed."))
    text = _("Jupyter in this Python does not find the {missing} extension.", missing=", ".join(missing))
    fix = _("Install jupyter-tpu into the environment that JupyterLab runs in: `pip install jupyter-tpu`")
    return Finding(check="JupyterLab", state=WARNING, text=text, fix=fix)


def _ssh_key() -> Finding:
    from jupyter_tpu.journal.paths import data_path

    path = data_path() / "ssh" / "id_ed25519"
    if not path.exists():
        return Finding(check="SSH key", state=OK, text=_("Not created yet: it is created with the first node."))
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        text = _("Other users can read {path} (mode {mode}).", path=path, mode=f"{mode:04o}")
        return Finding(check="SSH key", state=WARNING, text=text, fix=f"chmod 600 {path}")
    return Finding(check="SSH key", state=OK, text=f"{path}.")


def _journal() -> Iterator[Finding]:
    from jupyter_tpu.journal import Journal
    from jupyter_tpu.journal.paths import data_path

    # opening the journal would create it, and the doctor changes nothing
    if not data_path().is_dir():
        yield Finding(
            check="journal", state=OK, text=_("Not created yet: jupyter_tpu has not been used on this machine.")
        )
        return
    try:
        with closing(Journal.open(data_path())) as journal:
            notices = journal.notices
    except TpuError as error:
        yield _of_error("journal", error)
        return
    for notice in notices:
        yield Finding(check="journal", state=WARNING, text=_(notice), fix=_("Check the budgets: `jupyter tpu budget`"))
    if not notices:
        yield Finding(check="journal", state=OK, text=_("{folder} can be read and written.", folder=data_path()))


def _disk() -> Finding:
    from jupyter_tpu.journal.paths import data_path

    # our folder may not exist yet; the nearest one that does is on the same disk
    folder = next(path for path in (data_path(), *data_path().parents) if path.is_dir())
    usage = shutil.disk_usage(folder)
    text = _(
        "{free} of {total} GiB are free in {folder}.",
        free=f"{usage.free / _GIB:.1f}",
        total=f"{usage.total / _GIB:.1f}",
        folder=folder,
    )
    if usage.free >= _LEAST_DISK_BYTES:
        return Finding(check="disk", state=OK, text=text)
    fix = _("Free some disk space. Otherwise no node can be created or started, and outputs are not saved.")
    return Finding(check="disk", state=FAULT, text=text, fix=fix)


# -- the project


async def examine_cloud(settings: CloudSettings) -> list[Finding]:
    """Check credentials, the API, quotas, and whether budgets can be read."""
    try:
        async with _cloud(settings) as cloud:
            listed = await cloud.list_nodes()
            found = [_of_list(cloud.settings.project, len(listed.nodes), listed.unreachable)]
            found.append(_own_clock(cloud.clock.notice))
            return [*found, *await _quotas(cloud), *_budgets(cloud.settings)]
    except TpuError as error:
        return [_of_error(_check_of(error), error)]


@asynccontextmanager
async def _cloud(settings: CloudSettings) -> AsyncIterator[CloudApi]:
    from jupyter_tpu.fleet.assembly import open_cloud

    async with open_cloud(settings) as cloud:
        yield cloud


def _check_of(error: TpuError) -> str:
    names = {CredentialsMissing: "credentials", ApiDisabled: "API", PermissionDenied: "permissions"}
    return next((name for kind, name in names.items() if isinstance(error, kind)), "cloud")


def _of_list(project: str, nodes: int, unreachable: tuple[str, ...]) -> Finding:
    text = (
        _("Project {project} is reachable and has 1 node.", project=project)
        if nodes == 1
        else _("Project {project} is reachable and has {count} nodes.", project=project, count=nodes)
    )
    if not unreachable:
        return Finding(check="API", state=OK, text=text)
    text = _("{text} Zones that did not respond: {zones}.", text=text, zones=", ".join(unreachable[:10]))
    return Finding(
        check="API",
        state=WARNING,
        text=text,
        fix=_("Nodes in these zones are missing from all lists. Try again later."),
    )


async def _quotas(cloud: CloudApi) -> list[Finding]:
    from jupyter_tpu.fleet.spend.quota_report import read_quota

    report = await read_quota(cloud)
    if report.limits is None and report.limits_error is not None:
        return [_of_error("quota", report.limits_error)]
    return [_leftovers(report)]


def _leftovers(report: QuotaReport) -> Finding:
    leftovers = sum(held.is_leftover for held in report.holdings.held)
    if not leftovers:
        return Finding(check="quota", state=OK, text=_("The limits can be read, and no leftovers use quota."))
    text = _("1 leftover uses quota.") if leftovers == 1 else _("{count} leftovers use quota.", count=leftovers)
    fix = _("`jupyter tpu cleanup` lists leftovers, and deletes those that you name.")
    return Finding(check="quota", state=WARNING, text=text, fix=fix)


def _own_clock(wrong: str) -> Finding:
    if not wrong:
        return Finding(check="clock", state=OK, text=_("This computer's clock agrees with the cloud's."))
    fix = _("Synchronize this computer's clock over the network (NTP): the times that you enter and see depend on it.")
    return Finding(check="clock", state=WARNING, text=_(wrong), fix=fix)


def _budgets(settings: CloudSettings) -> list[Finding]:
    from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
    from jupyter_tpu.journal import Journal

    with closing(Journal.of_user()) as journal:
        account = SpendLedger(journal, settings).account(time.time())
    if broken := account.broken():
        return [_of_error("budgets", each.error) for each in broken]
    count = len(account.budgets)
    return [Finding(check="budgets", state=OK, text=_("{count} set.", count=count) if count else _("No budgets."))]


# -- a node


async def examine_node(settings: CloudSettings, name: str, zone: str) -> list[Finding]:
    """Check a node's state; if it is READY, also check its clock and run the doctor on its first worker."""
    try:
        async with _cloud(settings) as cloud:
            node = await find_node(cloud, name, zone)
        return [_state(node), *(await _worker(cloud.settings, node) if node.state == "READY" else [])]
    except TpuError as error:
        return [_of_error("node", error)]


def _state(node: Node) -> Finding:
    text = _(
        "{node} ({type}, {zone}) is {state}.",
        node=node.name.node_id,
        type=node.accelerator_type,
        zone=node.name.zone,
        state=node.state,
    )
    if node.state != "READY":
        fix = _(
            "Only a READY node can be checked further. To start a stopped node, run `jupyter tpu start {node}`.",
            node=node.name.node_id,
        )
        return Finding(check="node", state=WARNING, text=text, fix=fix)
    if node.health not in ("", "HEALTHY", "HEALTH_UNSPECIFIED"):
        text = _(
            "{text} Its health is {health}: {reason}.",
            text=text,
            health=node.health,
            reason=node.health_description or _("no reason is given"),
        )
        return Finding(check="node", state=WARNING, text=text, fix=_("Save your work, and create another node."))
    return Finding(check="node", state=OK, text=text)


async def _worker(settings: CloudSettings, node: Node) -> list[Finding]:
    from jupyter_tpu.kernels.agents.open_links import WorkerAgents

    # compare the clocks at the middle of the call, which halves the error that the network causes
    agents = WorkerAgents(settings, (node,))
    try:
        examined = await agents.call(node.name, "examine", {}) or {"findings": []}
        sent_at = time.time()
        sampled = await agents.call(node.name, "metrics", {"history_s": 0, "points": 1}) or {}
        answered_at = time.time()
        found = [Finding.from_json(each) for each in examined["findings"]]
        ahead_s = float(sampled["sample"]["at"]) - (sent_at + answered_at) / 2
    except TpuError as error:
        return [_of_error("SSH and agent", error)]
    except (KeyError, TypeError, ValueError):
        unread = Finding(
            check="SSH and agent", state=UNKNOWN, text=_("This version can't read the agent's response.")
        ).fixed_by("replace-agent")
        return [_seen_from_here(node, unread)]
    reached = Finding(check="SSH and agent", state=OK, text=_("The first worker responds over SSH."))
    return [reached, _clocks(ahead_s), *(_seen_from_here(node, each) for each in found)]


def _seen_from_here(node: Node, finding: Finding) -> Finding:
    """Add the node's details to a worker's finding, such as the node's name in commands for this terminal."""
    # the worker can't always find out its runtime version, but the API has returned it
    if (finding.check, finding.state) == ("runtime version", UNKNOWN):
        return _runtime_version(node)
    # the node's details show whether it can be stopped to replace its agent
    is_lasting = finding.fix_code == "replace-agent" and not can_stop(node)
    name = f"{node.name.node_id} --zone {node.name.zone}"
    return finding.in_terminal(name, "recreate-node" if is_lasting else "")


def _runtime_version(node: Node) -> Finding:
    if why := runtime_version_fits(node.accelerator_type, node.runtime_version, ""):
        return Finding(
            check="runtime version", state=FAULT, text=why, fix=_("Recreate the node with one of these versions.")
        )
    return Finding(
        check="runtime version",
        state=OK,
        text=_("{runtime_version} on {type}.", runtime_version=node.runtime_version, type=node.accelerator_type),
    )


def _clocks(ahead_s: float) -> Finding:
    if abs(ahead_s) <= _MOST_CLOCK_S:
        return Finding(
            check="clocks", state=OK, text=_("This machine's clock and the node's agree to within a few seconds.")
        )
    difference = duration_text(abs(ahead_s))
    text = (
        _("The node's clock is {duration} ahead of this machine's.", duration=difference)
        if ahead_s > 0
        else _("The node's clock is {duration} behind this machine's.", duration=difference)
    )
    fix = _(
        "Set the wrong clock to the correct time. Auto-stop does not depend on it, but times of day that you enter do."
    )
    return Finding(check="clocks", state=WARNING, text=text, fix=fix)


def _of_error(check: str, error: TpuError) -> Finding:
    text = f"{_(error.message)} {_(error.exists)}".strip()
    return Finding(check=check, state=FAULT, text=text, fix=_(error.hint))
