"""Options that several commands share, and what follows from them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jupyter_tpu.errors import BadInput
from jupyter_tpu.provisioning import Provisioning, chosen

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings


def add_cloud_options(parser: argparse.ArgumentParser) -> None:
    """``--project`` and ``--endpoint``: which cloud."""
    parser.add_argument("--project", default="", help="project id (default: $JUPYTER_TPU_PROJECT, or the credentials')")
    parser.add_argument(
        "--endpoint", default="", metavar="HOST:PORT", help="gRPC endpoint (default: $JUPYTER_TPU_ENDPOINT, or Google)"
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_node_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", help="name of the node")
    parser.add_argument("--zone", default="", help="its zone (needed where two zones have a node of this name)")


def add_internal_ips_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--internal-ips", action="store_true", help="no external IP addresses: reached only from the node's network"
    )


def add_provisioning_options(parser: argparse.ArgumentParser) -> None:
    """``--provisioning`` and its short form ``--spot``: on which terms."""
    parser.add_argument(
        "--provisioning",
        default="",
        metavar="MODEL",
        help="on-demand (default), spot, preemptible (as spot, and over after 24 h), reserved (chips of a reservation) "
        "or, only in the queue, flex-start",
    )
    parser.add_argument(
        "--spot", action="store_true", help="--provisioning spot: cheaper, may be taken away at any time"
    )


def chosen_provisioning(options: argparse.Namespace) -> Provisioning:
    """What `add_provisioning_options` was given; raises BadInput where it makes no sense."""
    return chosen(options.provisioning or None, spot=options.spot or None)


def provisioning_at_once(options: argparse.Namespace) -> Provisioning:
    """The same; raises BadInput too for flex-start, which only the cloud's queue has."""
    provisioning = chosen_provisioning(options)
    if provisioning == "flex-start":
        raise BadInput(
            "A flex-start node cannot be created at once.",
            exists="Nothing was asked of the cloud.",
            hint="Queue it: jupyter tpu queue add NODE --type TYPE --zone ZONE --run-for TIME",
        )
    return provisioning


def add_yes_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")


def cloud_settings(options: argparse.Namespace) -> CloudSettings:
    """The flags, and the environment where they are not given."""
    from jupyter_tpu.cloud.settings import CloudSettings, settings_from_environment

    from_environment = settings_from_environment()
    return CloudSettings(
        project=options.project or from_environment.project, endpoint=options.endpoint or from_environment.endpoint
    )


def add_unknown_price_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-unknown-price", action="store_true", help="create it under a budget though its price is not known"
    )
