"""Options shared by several commands, and the settings derived from them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.models import NodeOptions
from jupyter_tpu.provisioning import Provisioning, parse_provisioning

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings


def types_hint(option: str) -> Text:
    """Return the hint for a command line without `option`: the accelerator types of nodes with one VM."""
    kinds = accelerators.accelerators().values()
    return Text(
        "Add {option} with one of: {types}; or with a slice of several VMs, such as v5litepod-16.",
        option=option,
        types=", ".join(kind.type for kind in kinds if kind.workers == 1),
    )


def node_options(options: argparse.Namespace) -> NodeOptions:
    """Return the options of the new node."""
    return NodeOptions.pick(vars(options))


def chosen_runtime_version(options: argparse.Namespace, kind: accelerators.Accelerator) -> str:
    """Return ``--runtime-version``, or the type's default.

    Raises:
        BadInput: the type has no known runtime version.
    """
    known = accelerators.runtime_versions(kind.generation)
    if not options.runtime_version and not known:
        raise BadInput(
            Text("No runtime version is known for {type}.", type=kind.type), hint="Choose one with --runtime-version."
        )
    return options.runtime_version or known[0]


def chosen_provisioning(options: argparse.Namespace) -> Provisioning:
    """Return the provisioning model from the options.

    Raises:
        BadInput: there is no such model, or the two options contradict each other.
    """
    # None means that the option is omitted, so that --spot with a contradictory --provisioning is rejected
    return parse_provisioning(options.provisioning or None, spot=options.spot or None)


def provisioning_at_once(options: argparse.Namespace) -> Provisioning:
    """Return the provisioning model for a node that is created immediately.

    Raises:
        BadInput: as for `chosen_provisioning`, and for flex-start, which only the cloud's queue offers.
    """
    provisioning = chosen_provisioning(options)
    if provisioning == "flex-start":
        raise BadInput(
            "A flex-start node cannot be created immediately.",
            exists="No request was sent to the cloud.",
            hint="Queue the node: `jupyter tpu queue add NODE --type TYPE --zone ZONE --run-for TIME`",
        )
    return provisioning


def cloud_settings(options: argparse.Namespace) -> CloudSettings:
    """Return the project and endpoint from the options or, if not given, from the environment."""
    from jupyter_tpu.cloud.settings import CloudSettings, settings_from_environment

    from_environment = settings_from_environment()
    return CloudSettings(
        # each option overrides its environment variable
        project=options.project or from_environment.project,
        endpoint=options.endpoint or from_environment.endpoint,
    )
