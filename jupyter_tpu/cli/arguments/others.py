"""The arguments of the commands for notebooks, chips, auto-stop and the demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jupyter_tpu.autostop import ACTIONS
from jupyter_tpu.commands import shared
from jupyter_tpu.commands.arguments import CLOUD, JSON, NO_CONFIRMATION, NODE, REMOTE, YES, action, optional_node
from jupyter_tpu.commands.grammar import Command, argument, duration_or_off, flag
from jupyter_tpu.frameworks import FRAMEWORKS

FIRST = (
    Command(
        name="setup",
        help="connect your Google Cloud project, step by step",
        description="Check credentials, project and billing, the Cloud TPU API, quota, budget and auto-stop, and ask "
        "before setting up what is missing. The command is free of charge and can be repeated. The exit "
        "code is 0 if nodes can be created.",
        arguments=(
            argument("--credentials", metavar="FILE", help="use the credentials in this file from now on"),
            argument("--trc-mail", metavar="FILE", help="add the grant in this email from the TPU Research Cloud"),
            argument("--budget", type=float, metavar="USD", help="first budget, in US dollars per week"),
            flag("--link-billing", help="with --yes, also link the only billing account to the project"),
            YES,
            *REMOTE,
        ),
    ),
)

NOTEBOOKS = (
    Command(
        name="kernels",
        help="list kernels on all READY nodes, or shut one down",
        arguments=(
            action("list", "end"),
            argument(
                "kernel", metavar="ID", nargs="?", help="kernel to shut down: its ID, or the first characters of the ID"
            ),
            argument("--zone", help="only nodes in this zone"),
            YES,
            *REMOTE,
        ),
    ),
    Command(
        name="env",
        help="list, create or remove a node's framework environments",
        arguments=(
            argument("action", choices=("list", "make", "remove"), help="action to perform"),
            *NODE,
            argument("framework", metavar="FRAMEWORK", nargs="?", help=", ".join(FRAMEWORKS)),
            argument("--version", help="version of the framework, such as 0.6 (default: the newest)"),
            argument("--folder", type=Path, help="also install the requirements.txt or pyproject.toml of this folder"),
            flag("--push", help="download the packages here and upload them, for a node without internet access"),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
    Command(
        name="kernelspec",
        help="write kernelspecs for READY nodes and remove those of other nodes",
        arguments=(
            argument("node", metavar="NODE", nargs="?", help="only this node (default: all)"),
            argument("--zone", help="zone of the node"),
            flag("--remove", help="remove kernelspecs instead"),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
    Command(
        name="ssh",
        help="log in to a node over SSH with a pinned host key",
        description="Log in to a node over SSH with a pinned host key. A command after -- runs instead of a shell.",
        arguments=(
            *NODE,
            argument("--worker", type=int, default=0, metavar="N", help="worker number (default: 0)"),
            *CLOUD,
        ),
        passes_on=True,
        needs_terminal=True,
    ),
    Command(
        name="cp",
        help="copy files between this machine and nodes",
        description="Copy files between this machine and nodes. A path on a node is NODE:PATH, relative to your home "
        "folder there. Permissions and times are kept. After a lost connection, the command reconnects and continues "
        "where it stopped; so does the same command if you run it again.",
        arguments=(
            argument("paths", nargs="+", metavar="PATH", help="one or more sources, then the target"),
            flag("-r", "--recursive", help="copy folders; files that have the same size and time there are skipped"),
            argument("--zone", help="zone of the nodes"),
            argument("--worker", type=int, default=0, metavar="N", help="worker number (default: 0)"),
            *REMOTE,
        ),
    ),
    Command(
        name="sync",
        help="make a folder here and a folder on a node equal",
        description="Sync a folder with a node, in both directions, or only to the node (push) or from it (pull). Of a "
        "file that was changed on both sides, both versions are kept. What .gitignore or .tpuignore lists and files of "
        "more than 50 MB are not synced. status only shows what a sync would do.",
        arguments=(
            action("both", "push", "pull", "status"),
            *NODE,
            argument(
                "--folder", type=Path, default=Path(), metavar="DIR", help="folder here (default: current folder)"
            ),
            argument("--on-node", metavar="PATH", help="folder on the node (default: ~/NAME, with the same name)"),
            flag("--dry-run", help="only show what would be done"),
            YES,
            *REMOTE,
        ),
    ),
    Command(
        name="ports",
        help="list, open or close TCP ports of a node, to use programs there in the browser",
        description="List, open or close TCP ports of a node. A program that listens on an open port, such as "
        "TensorBoard, can be used through your Jupyter server, and only by you. It must listen on 127.0.0.1 or on all "
        "addresses of the node's first worker.",
        arguments=(
            *NODE,
            argument(
                "action",
                nargs="?",
                choices=("list", "open", "close"),
                default="list",
                help="action to perform (default: list)",
            ),
            argument("port", metavar="PORT", nargs="?", type=int, help="port to open or close"),
            *REMOTE,
        ),
    ),
    Command(
        name="ssh-config",
        help="print the Host entries that plain ssh and VS Code Remote-SSH need",
        arguments=(
            argument("node", metavar="NODE", nargs="?", help="only this node (default: all READY ones)"),
            argument("--zone", help="zone of the node"),
            flag("--write", help="write the entries to a file that ~/.ssh/config includes"),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
)

CHIPS = (
    replace(
        shared.TOP,
        arguments=(*NODE, flag("--once", help="show the load once (default if the output is not a terminal)"), *REMOTE),
    ),
    replace(shared.PS, arguments=(*NODE, *REMOTE)),
    shared.RELEASE,
    shared.DOCTOR,
)

AUTOSTOP = (
    replace(
        shared.AUTOSTOP,
        arguments=(
            *optional_node("name of the node (default: show all)"),
            argument(
                "--idle",
                type=duration_or_off("--idle"),
                metavar="1h|off",
                help="idle timeout: stop or delete the node after this long without use",
            ),
            argument(
                "--unattended",
                type=duration_or_off("--unattended"),
                metavar="2h|off",
                help="treat a running cell as idle after this long with idle chips, no output and no connection "
                "(default: 2h)",
            ),
            argument(
                "--session",
                type=duration_or_off("--session"),
                metavar="12h|off",
                help="maximum session length, counted from READY, even if busy",
            ),
            argument(
                "--action", choices=ACTIONS, help="auto-stop action: stop the node (its disk is kept) or delete it"
            ),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
    replace(shared.EXTEND, arguments=(*shared.EXTEND.arguments, NO_CONFIRMATION)),
)

WITHOUT_A_CLOUD = (
    Command(
        name="demo",
        help="run JupyterLab on an emulated cloud: free, on this machine only",
        description="Run JupyterLab on an emulated cloud: free, on this machine only. "
        "Arguments after -- go to JupyterLab.",
        arguments=(
            argument("--dir", type=Path, help="folder of the demo's state (default: ~/.local/share/jupyter-tpu-demo)"),
            argument("--port", type=int, help="port of JupyterLab (default: 8888 or the next free one)"),
            flag("--no-browser", help="do not open a browser"),
            flag("--reset", help="delete the nodes and notebooks of earlier demos first"),
        ),
        passes_on=True,
        needs_terminal=True,
    ),
    Command(name="emulator", help="run an emulated Cloud TPU API on this machine", needs_terminal=True),
    Command(name="version", help="print the version", arguments=(JSON,)),
)
