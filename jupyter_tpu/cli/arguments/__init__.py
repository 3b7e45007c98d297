"""All ``jupyter tpu`` commands, grouped by purpose, with their arguments and modules."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_tpu.cli.arguments import money, nodes, others
from jupyter_tpu.commands.grammar import Command
from jupyter_tpu.errors import Text

GROUPS: Mapping[str, tuple[Command, ...]] = {
    Text("Set-up"): others.FIRST,
    Text("Nodes"): nodes.COMMANDS,
    Text("Notebooks"): others.NOTEBOOKS,
    Text("Chips"): others.CHIPS,
    Text("Auto-stop"): others.AUTOSTOP,
    Text("Costs and quota"): money.COMMANDS,
    Text("Without Google Cloud"): others.WITHOUT_A_CLOUD,
}
"""The commands, by the titles of their groups in the help."""

COMMANDS: Mapping[str, Command] = {each.name: each for group in GROUPS.values() for each in group}
"""All commands, by name."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "nodes.list": ("list", "describe"),
    "nodes.create": ("create",),
    "nodes.search": ("search",),
    "nodes.queue": ("queue",),
    "nodes.change": ("stop", "start", "delete"),
    "nodes.kernels": ("kernels",),
    "on_node.env": ("env",),
    "on_node.copy": ("cp",),
    "on_node.sync": ("sync",),
    "on_node.top": ("top",),
    "on_node.ports": ("ports",),
    "on_node.processes": ("ps", "release"),
    "on_node.autostop": ("autostop", "extend"),
    "nodes.access": ("ssh", "ssh-config", "kernelspec"),
    "spend.grant": ("grant",),
    "spend.cost": ("cost",),
    "spend.budget": ("budget",),
    "spend.audit": ("audit",),
    "nodes.recover": ("recover",),
    "spend.quota": ("quota",),
    "spend.cleanup": ("cleanup",),
    "nodes.setup": ("setup",),
    "nodes.doctor": ("doctor",),
    "demo.command": ("demo",),
    "other": ("emulator", "version"),
}
"""The commands in each module, which is imported only when a command runs. It has a function ``run_COMMAND`` each."""
