"""Arguments shared by several commands."""

from __future__ import annotations

import argparse

from jupyter_tpu.commands.grammar import TERMINAL, Argument, argument, flag
from jupyter_tpu.errors import Text

ZONE = argument("--zone", place=TERMINAL, help="zone of the node (required if several nodes have this name)")
NODE = (argument("node", place=TERMINAL, metavar="NODE", help="name of the node"), ZONE)
"""The node that a terminal command is for; in a notebook, it is the node that the kernel runs on."""

CLOUD = (
    argument(
        "--project",
        place=TERMINAL,
        help="project ID (default: $JUPYTER_TPU_PROJECT, or the project of the credentials)",
    ),
    argument(
        "--endpoint",
        place=TERMINAL,
        metavar="HOST:PORT",
        help="gRPC endpoint (default: $JUPYTER_TPU_ENDPOINT, or Google)",
    ),
)
"""The options that select the cloud and the project."""

JSON = flag("--json", place=TERMINAL, help="print one JSON document and nothing else")
REMOTE = (*CLOUD, JSON)
"""The terminal options of nearly every command."""
YES = flag("--yes", "-y", help="skip the confirmation")
NO_CONFIRMATION = flag("--yes", "-y", place=TERMINAL, help=argparse.SUPPRESS)
"""For commands that change something without asking: ``--yes`` has no effect, but scripts can always pass it."""


def optional_node(help: str) -> tuple[Argument, Argument]:
    """Return an argument for an optional node name; `help` says what the command does if the name is omitted."""
    return (argument("node", place=TERMINAL, nargs="?", metavar="NODE", help=help), ZONE)


def action(*names: str) -> Argument:
    """Return the argument that selects a command's action; the default is the first of `names`."""
    first, *others = names
    return argument(
        "action",
        nargs="?",
        default=first,
        choices=names,
        help=Text("{first} (default), {others}", first=first, others=", ".join(others)),
    )
