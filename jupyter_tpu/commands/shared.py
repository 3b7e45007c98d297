"""The commands of ``%tpu`` in a kernel on a node. Most also exist in the terminal, with a node's name."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from jupyter_tpu.commands.arguments import CLOUD, JSON, NODE, REMOTE, YES, optional_node
from jupyter_tpu.commands.extension import DEFAULT_EXTENSION, SPELLED_OUT
from jupyter_tpu.commands.grammar import NOTEBOOK, TERMINAL, Command, argument, duration, flag, whole_number
from jupyter_tpu.errors import Text

# the largest pid_max that Linux allows on 64-bit machines (proc(5))
_MOST_PID = 2**22
LOG_LINES, MOST_LOG_LINES = 20, 1000
# the largest slice is a v5p-12288, with 4 chips per worker
MOST_WORKERS = 1536
FORCE_NEEDS_PID = "--force needs --pid: another user's process can only be ended by its pid."

STATUS = Command(
    name="",
    here="Show this node on one screen.",
    examples={"%tpu": "node, chips, auto-stop, cost, quota and grants, each with the age of its data"},
)

# -- chips

TOP = Command(
    name="top",
    help="show the load of each chip of a node, every second",
    here="Show load and memory of the chips and of the machine.",
    examples={"%tpu top": "the newest sample"},
)
PS = Command(
    name="ps",
    help="show the processes that use the chips of a node, and their users",
    here="List the processes that use the chips, with their notebooks.",
    examples={"%tpu ps": "every process that the agent can see"},
)
RELEASE = Command(
    name="release",
    help="end the processes that use a node's chips",
    here="End the processes that use the chips, after a confirmation.",
    examples={
        "%tpu release": "all of your own processes",
        "%tpu release --pid 1234": "only this process; another user's process needs a separate confirmation",
        "%tpu release --yes": "skip the confirmation for your own processes",
    },
    arguments=(
        *NODE,
        argument("--worker", place=TERMINAL, type=int, help="worker of a slice (default: all; with --pid: 0)"),
        argument(
            "--pid",
            type=whole_number(_MOST_PID),
            metavar="PID",
            help="end only this process (default: all of your own processes)",
        ),
        flag("--force", help="with --pid: end the process even if it belongs to another user, if the node allows it"),
        YES,
        *REMOTE,
    ),
)

# -- stopping the node

AUTOSTOP = Command(
    name="autostop",
    aliases=("idle",),
    help="show or set the auto-stop rules of nodes",
    here="Show the activity on this node and when auto-stop will stop or delete the node.",
    examples={"%tpu autostop": "running cells, chips and users, how old each value is, and the auto-stop rules"},
)
EXTEND = Command(
    name="extend",
    help="keep a node running past its auto-stop",
    here="Keep this node running past its auto-stop. A budget's deadline still applies.",
    examples={
        "%tpu extend": Text("for {duration}", duration=DEFAULT_EXTENSION),
        "%tpu extend 3h": "for a duration (in s, m, h or d)",
        "%tpu extend until 18:00": "until a time of day, by the node's clock (UTC unless changed)",
        "%tpu extend while-busy": "until the current cell ends",
        "%tpu extend off": "cancel an earlier extension",
    },
    arguments=(
        *NODE,
        argument(
            "time",
            nargs="*",
            metavar="TIME",
            suggestions=SPELLED_OUT,
            help="how long to extend the node, instead of an option: 3h, until 18:00, while-busy or off",
        ),
        (
            argument(
                "--for",
                dest="for_",
                type=duration("--for"),
                metavar=DEFAULT_EXTENSION,
                help=Text("for this long (default: {duration})", duration=DEFAULT_EXTENSION),
            ),
            argument(
                "--until",
                metavar="HH:MM",
                help="until this time of day, by the clock of the machine that runs the command",
            ),
            flag("--while-busy", help="until the running cells have finished"),
            flag("--off", help="cancel an earlier extension"),
        ),
        *REMOTE,
    ),
)
STOP = Command(
    name="stop",
    help="stop a node; then only its disk is billed",
    here="Stop this node after a confirmation; works while your own machine is off.",
    examples={
        "%tpu stop": "its disk is kept and billed; a spot node or a slice of several VMs can only be deleted",
        "%tpu stop --yes": "skip the confirmation",
    },
    arguments=(
        *optional_node("name of the node"),
        flag(
            "--all",
            place=TERMINAL,
            help="stop all spending now: stop or delete every node, and cancel requests for capacity",
        ),
        # the former way to delete the node in a notebook
        flag("--delete", place=NOTEBOOK, help=argparse.SUPPRESS),
        YES,
        *REMOTE,
    ),
)
DELETE = Command(
    name="delete",
    help="delete a node and its disk",
    here="Delete this node and its disk after a confirmation; works while your own machine is off.",
    examples={"%tpu delete": "everything on its disk is lost", "%tpu delete --yes": "skip the confirmation"},
    arguments=(*NODE, YES, *REMOTE),
)

# -- costs, as last sent by the user's own computer

_SENT = Text("the latest data from your own machine")

COST = Command(
    name="cost",
    help="show what nodes have cost at list price, and how much of each budget is used",
    here="Show the cost of this node and of the project, and how much of each budget is used.",
    examples={"%tpu cost": _SENT},
)
QUOTA = Command(
    name="quota",
    help="show quota limits, how much is used (leftovers included) and how much is left",
    here="Show the quotas that this node counts against, and how much of each is left.",
    examples={"%tpu quota": _SENT},
)
GRANT = Command(
    name="grant",
    help="list, add or remove TRC grants and credits, and see what is left",
    here="Show TRC grants and credits, when they end, and how much is left.",
    examples={"%tpu grant": _SENT},
)

# -- this kernel

PYTHON = Command(
    name="python",
    here="Show this kernel's Python, the packages relevant for TPUs, and the variables that frameworks read.",
    examples={"%tpu python": "Python, packages and variables; works without the agent"},
)
LOGS = Command(
    name="logs",
    here="Show the end of the agent's log on this machine.",
    examples={
        "%tpu logs": Text("{count} lines", count=LOG_LINES),
        "%tpu logs 200": Text("200 lines; at most {count}", count=f"{MOST_LOG_LINES:,}"),
        "%tpu logs --worker 2": "the end of worker 2's newest output that was too long for the notebook",
    },
    arguments=(
        argument("lines", nargs="?", type=whole_number(MOST_LOG_LINES), default=LOG_LINES, metavar="LINES"),
        argument(
            "--worker",
            type=whole_number(MOST_WORKERS),
            metavar="WORKER",
            help="show the end of this worker's newest output that was too long for the notebook",
        ),
    ),
)
WORKERS = Command(
    name="workers",
    here="Show the workers of this slice, and what each runs.",
    examples={"%tpu workers": "state, process and host of each worker"},
)
DOCTOR = Command(
    name="doctor",
    help="find what keeps kernels from using their TPU, and how to fix it",
    here="Find what could keep this kernel from using its chips, and how to fix it.",
    examples={
        "%tpu doctor": "check Python, versions, TPU processes, lock file, fallback, disk, clock, guard, auto-stop",
        "%tpu doctor --json": "the findings as JSON",
    },
    arguments=(
        *optional_node("also check this node's first worker"),
        *CLOUD,
        flag("--json", help=JSON.settings["help"]),
    ),
)

ON_NODE: Mapping[str, Command] = {
    each.name: each
    for each in (
        *(TOP, PS, RELEASE, AUTOSTOP, EXTEND, STOP, DELETE),
        *(COST, QUOTA, GRANT, PYTHON, LOGS, DOCTOR, WORKERS),
    )
}
"""The commands of ``%tpu`` in a kernel on a node, by name."""

RENAMED: Mapping[str, tuple[str, ...]] = {
    "brakes": ("autostop",),
    "free": ("release",),
    "keep": ("extend",),
    "panic": ("stop", "--all"),
    "sweep": ("cleanup",),
    "who": ("ps",),
}
"""Former names of commands, with their replacements.

They work for one more minor version, in the terminal and in notebooks.
"""

RENAMED_ON_NODE: Mapping[str, str] = {"env": "python"}
"""The same for a ``%tpu`` command that had the name of a different terminal command."""
