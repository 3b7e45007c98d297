"""The command `doctor`: check this machine, the project and a node for problems that prevent TPU use."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from jupyter_tpu.cli.node_texts import EMULATED
from jupyter_tpu.cli.nodes.doctor_checks import examine_cloud, examine_here, examine_node
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.diagnostics import FAULT, OK, UNKNOWN, WARNING, Finding, summary
from jupyter_tpu.errors import Text
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
_HEADER = ("", "CHECK", "FINDING")
_STATES = {OK: Text("ok"), WARNING: Text("warning"), FAULT: Text("fault"), UNKNOWN: Text("unknown")}


def run_doctor(options: argparse.Namespace) -> int:
    """Print the findings; return exit code 1 if any of them is a fault."""
    settings = cloud_settings(options)
    findings = asyncio.run(_examine(settings, options.node, options.zone))
    has_fault = any(each.state == FAULT for each in findings)
    if options.json:
        found = [each.to_json() for each in findings]
        echo_json({"findings": found, "has_fault": has_fault, "emulated": settings.is_emulated})
    else:
        _show(findings)
        if settings.is_emulated:
            note(EMULATED)
    return int(has_fault)


async def _examine(settings: CloudSettings, node: str, zone: str) -> list[Finding]:
    here, cloud = list(examine_here()), await examine_cloud(settings)
    # without credentials or the API, the node's checks would only repeat that error
    is_reachable = any(each.check == "API" for each in cloud)
    return [*here, *cloud, *(await examine_node(settings, node, zone) if node and is_reachable else [])]


def _show(findings: list[Finding]) -> None:
    echo_table(_HEADER, ((_(_STATES[each.state]), _(each.check), _(each.text)) for each in findings))
    echo()
    for each in findings:
        if each.fix and each.state != OK:
            echo(_("{topic}: {text}", topic=plain(_(each.check)), text=plain(_(each.fix))))
    note(_(summary(findings)))
