"""The arguments of the commands that create, change and list nodes."""

from __future__ import annotations

from dataclasses import fields

from jupyter_tpu.commands import shared
from jupyter_tpu.commands.arguments import NO_CONFIRMATION, NODE, REMOTE, YES, action, optional_node
from jupyter_tpu.commands.grammar import Command, argument, duration, flag
from jupyter_tpu.errors import Text
from jupyter_tpu.models import NodeOptions

_NEW_NODE = (
    argument("--runtime-version", help="runtime version, which selects the VM image (default: the one for the type)"),
    argument(
        "--provisioning",
        metavar="MODEL",
        help="on-demand (default), spot, preemptible (like spot, for at most 24 h), reserved (chips of a reservation) "
        "or, only in the queue, flex-start",
    ),
    flag("--spot", help="short for --provisioning spot: cheaper, but may be pre-empted at any time"),
    *(flag(f"--{each.name.replace('_', '-')}", help=each.metadata["help"]) for each in fields(NodeOptions)),
    argument("--ssh-user", help="login name on the VMs (default: yours)"),
    flag("--accept-unknown-price", help="create the node even if its price is unknown and a budget is set"),
)
"""Options of `create`, `search` and `queue` for a new node, in addition to its name, zone and type."""

_TYPE = Text("accelerator type, such as v5litepod-8")


COMMANDS = (
    Command(
        name="list",
        help="list the nodes of the project, in all zones",
        arguments=(argument("--zone", help="list only this zone"), *REMOTE),
    ),
    Command(name="describe", help="show everything about one node", arguments=(*NODE, *REMOTE)),
    Command(
        name="create",
        help="create a node and wait until it is READY",
        arguments=(
            argument("node", metavar="NODE", help="name of the new node"),
            argument("--type", metavar="TYPE", help=_TYPE),
            argument("--zone", help="zone (default: the first that offers the type)"),
            *_NEW_NODE,
            argument(
                "--notebook",
                metavar="FILE",
                help="warn if gs:// buckets in this file are in another region",
            ),
            argument(
                "--epoch-gib",
                metavar="N",
                help="with --notebook: GiB read from each bucket per epoch, to show the cost",
            ),
            YES,
            *REMOTE,
        ),
    ),
    Command(
        name="search",
        help="try zones and types until a node is READY, or list searches if NODE is omitted",
        arguments=(
            argument("node", nargs="?", metavar="NODE", help="name of the new node"),
            argument("--types", metavar="TYPE,…", help="acceptable accelerator types"),
            argument("--zones", metavar="ZONE,…", help="acceptable zones (default: all that offer the type)"),
            *_NEW_NODE,
            argument(
                "--for",
                dest="for_",
                type=duration("--for"),
                metavar="TIME",
                help="how long to keep trying, such as 30m (default: try each combination once)",
            ),
            argument("--cancel", metavar="ID", help="cancel a search, and delete what it created"),
            YES,
            *REMOTE,
        ),
    ),
    Command(
        name="queue",
        help="list, add or remove requests that wait for capacity in the cloud",
        arguments=(
            action("list", "add", "remove"),
            argument("name", nargs="?", metavar="NAME", help="add: name of the new node; remove: ID of the request"),
            argument("--zone", help="zone (add: required; remove: only if several zones have this ID)"),
            argument("--type", metavar="TYPE", help=_TYPE),
            *_NEW_NODE,
            argument("--reservation", metavar="ID", help="reserved: use this reservation (default: any that fits)"),
            argument(
                "--valid-for",
                default="6h",
                type=duration("--valid-for"),
                metavar="TIME",
                help="how long the request waits for capacity (default: 6h)",
            ),
            argument(
                "--run-for",
                type=duration("--run-for"),
                metavar="TIME",
                help="flex-start: how long the node runs before the cloud deletes it, such as 4h",
            ),
            YES,
            *REMOTE,
        ),
    ),
    shared.STOP,
    Command(name="start", help="start a stopped node again", arguments=(*NODE, YES, *REMOTE)),
    shared.DELETE,
    Command(
        name="recover",
        help="recreate a node after a pre-emption, or show the setting",
        arguments=(
            *optional_node("name of the node (default: show all)"),
            (
                flag("--on", help="recreate the node; the new node costs as much as the old one"),
                flag("--off", help="do not recreate the node"),
            ),
            argument(
                "--attempts",
                type=int,
                metavar="N",
                help="maximum number of attempts after each pre-emption (default: 3)",
            ),
            argument(
                "--max-usd",
                type=float,
                metavar="USD",
                help="stop recreating the node once it has cost this much, counted from now",
            ),
            NO_CONFIRMATION,
            *REMOTE,
        ),
    ),
)
