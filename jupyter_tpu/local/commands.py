"""The syntax that ``%tpu`` and ``%%tpu`` accept in a local kernel, in addition to the terminal's commands."""

from __future__ import annotations

from jupyter_tpu.commands.grammar import Command, argument

_FRAMEWORK = argument("framework", nargs="?", metavar="FRAMEWORK", help="the environment of a framework")

ATTACH = Command(
    name="attach",
    here="Select the node that cells under %%tpu run on, and start a kernel there.",
    examples={"%tpu attach NODE": "in the worker's Python", "%tpu attach NODE FRAMEWORK": "in this environment"},
    arguments=(
        argument("node", metavar="NODE", help="name of the node"),
        _FRAMEWORK,
        argument("--zone", help="zone of the node (required if several nodes have this name)"),
        argument("--project", help="project id"),
        argument("--endpoint", metavar="HOST:PORT", help="gRPC endpoint"),
    ),
)
DETACH = Command(
    name="detach",
    here="End the kernel on a node.",
    examples={"%tpu detach": "the current one", "%tpu detach NODE FRAMEWORK": "another one"},
    arguments=(argument("node", nargs="?", metavar="NODE", help="name of the node"), _FRAMEWORK),
)
CELL = Command(
    name="",
    here="Run the cell on a node.",
    examples={"%%tpu": "on the current node", "%%tpu NODE FRAMEWORK -o NAME": "and copy a variable back"},
    arguments=(
        *DETACH.arguments,
        argument("-o", dest="wanted", action="append", default=[], metavar="NAME", help="a variable to copy back"),
    ),
)
