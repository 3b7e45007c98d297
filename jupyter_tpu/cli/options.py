"""Options that several commands share, and the settings that follow from them."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.durations import parse_duration
from jupyter_tpu.errors import BadInput
from jupyter_tpu.models import NodeOptions
from jupyter_tpu.provisioning import Provisioning, parse_provisioning

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings


def add_cloud_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--project`` and ``--endpoint``, which say which cloud is meant."""
    parser.add_argument("--project", default="", help="project id (default: $JUPYTER_TPU_PROJECT, or the credentials')")
    parser.add_argument(
        "--endpoint", default="", metavar="HOST:PORT", help="gRPC endpoint (default: $JUPYTER_TPU_ENDPOINT, or Google)"
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_node_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument NODE and ``--zone``."""
    parser.add_argument("node", metavar="NODE", help="name of the node")
    parser.add_argument("--zone", default="", help="its zone, if nodes in several zones have this name")


def add_new_node_options(parser: argparse.ArgumentParser) -> None:
    """Add what `create`, `search` and `queue` ask about a new node besides its name, zone and type."""
    parser.add_argument("--runtime-version", default="", help="VM image (default: the one made for the type)")
    parser.add_argument(
        "--provisioning",
        default="",
        metavar="MODEL",
        help="on-demand (default), spot, preemptible (like spot, for at most 24 h), reserved (chips of a reservation) "
        "or, only in the queue, flex-start",
    )
    parser.add_argument(
        "--spot", action="store_true", help="--provisioning spot: cheaper, may be pre-empted at any time"
    )
    for each in fields(NodeOptions):
        parser.add_argument(f"--{each.name.replace('_', '-')}", action="store_true", help=each.metadata["help"])
    parser.add_argument("--ssh-user", default="", help="login name on the VMs (default: yours)")
    parser.add_argument(
        "--accept-unknown-price", action="store_true", help="create it under a budget even if its price is unknown"
    )


def node_options(options: argparse.Namespace) -> NodeOptions:
    """Return the options of the new node."""
    return NodeOptions.pick(vars(options))


def chosen_runtime_version(options: argparse.Namespace, kind: accelerators.Accelerator) -> str:
    """Return ``--runtime-version``, or the one made for the type.

    Raises:
        BadInput: none is known for the type.
    """
    known = accelerators.runtime_versions(kind.generation)
    if not options.runtime_version and not known:
        raise BadInput(f"No runtime version is known for {kind.type}.", hint="Choose one with --runtime-version.")
    return options.runtime_version or known[0]


def chosen_provisioning(options: argparse.Namespace) -> Provisioning:
    """Return the provisioning model that the options name.

    Raises:
        BadInput: there is no such model, or the two options contradict each other.
    """
    # None means not given, so that --spot with another --provisioning is refused as a contradiction
    return parse_provisioning(options.provisioning or None, spot=options.spot or None)


def provisioning_at_once(options: argparse.Namespace) -> Provisioning:
    """Return the provisioning model of a node that is created at once.

    Raises:
        BadInput: as `chosen_provisioning`, and for flex-start, which only the cloud's queue has.
    """
    provisioning = chosen_provisioning(options)
    if provisioning == "flex-start":
        raise BadInput(
            "A flex-start node cannot be created at once.",
            exists="No request was sent to the cloud.",
            hint="Queue it: jupyter tpu queue add NODE --type TYPE --zone ZONE --run-for TIME",
        )
    return provisioning


def add_yes_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--yes``, which skips the confirmation."""
    parser.add_argument("--yes", "-y", action="store_true", help="skip the confirmation")


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration that was typed for `option`, such as 30m, 6h or 2d.

    Raises:
        BadInput: the text is no duration, or is 0.
    """
    amount = parse_duration(text)
    if not amount:
        raise BadInput(
            f"{text[:40]!r} is not a duration.",
            exists="Nothing was asked of the cloud.",
            hint=f"Write {option} 30m, 6h or 2d.",
        )
    return amount


def cloud_settings(options: argparse.Namespace) -> CloudSettings:
    """Return the project and endpoint of the options, or of the environment where they are not given."""
    from jupyter_tpu.cloud.settings import CloudSettings, settings_from_environment

    from_environment = settings_from_environment()
    return CloudSettings(
        # each option wins over its own variable
        project=options.project or from_environment.project,
        endpoint=options.endpoint or from_environment.endpoint,
    )
