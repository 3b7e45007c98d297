"""The command `ports`: list, open and close the TCP ports of a node that can be used through a Jupyter server."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.cli.on_node.node_chips import node_chips
from jupyter_tpu.cli.terminal import echo, echo_json, echo_table, note, plain
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _

_HEADER = ("PORT", "OPEN", "PID", "COMMAND")


def run_ports(options: argparse.Namespace) -> int:
    """List the ports of a node, or open or close one."""
    if options.action != "list" and options.port is None:
        raise BadInput("No port was given.", hint=Text("Add its number: `… {action} 6006`.", action=options.action))
    node_name, zone, answer = asyncio.run(_call(options))
    if options.json:
        echo_json({"ports": answer["ports"]})
    elif options.action == "open":
        echo(_("Port {port} of {node} is open.", port=options.port, node=plain(node_name)))
        path = f"jupyter-tpu/v1/nodes/{zone}/{node_name}/ports/{options.port}/"
        note(_("On your Jupyter server, its address is: {path}", path=path))
    elif options.action == "close":
        echo(_("Port {port} of {node} is closed.", port=options.port, node=plain(node_name)))
    else:
        _show(answer, node_name)
    return 0


async def _call(options: argparse.Namespace) -> tuple[str, str, Mapping[str, Any]]:
    method = {"list": "list_ports", "open": "open_port", "close": "close_port"}[options.action]
    async with node_chips(options) as chips:
        params = {} if options.port is None else {"port": options.port}
        return chips.node.name.node_id, chips.node.name.zone, await chips.call_worker(0, method, params)


def _show(answer: Mapping[str, Any], node_name: str) -> None:
    states = {True: _("yes"), False: _("no")}
    rows = [
        (str(row["port"]), states[row["opened"]], str(process.get("pid", "")), process.get("command", ""))
        for row in answer["ports"]
        for process in row["processes"] or [{}]
    ]
    if rows:
        echo_table(_HEADER, rows)
    else:
        note(_("No program on {node} listens on a port.", node=plain(node_name)))
