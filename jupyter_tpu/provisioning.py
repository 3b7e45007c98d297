"""Provisioning models: on-demand, spot, preemptible, reserved and flex-start.

The API shows a node's model in its ``SchedulingConfig``. The exception is flex-start, which the API shows only in
queued resources (REST v2alpha1), so jupyter_tpu adds a label to the flex-start nodes that it requests. This module is
pure. It also runs on the worker (Python 3.10, standard library only).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypedDict, get_args

from jupyter_tpu.errors import BadInput, Text

Provisioning = Literal["on-demand", "spot", "preemptible", "reserved", "flex-start"]
PROVISIONING_MODELS: tuple[Provisioning, ...] = get_args(Provisioning)

PROVISIONING_LABEL = "jupyter-tpu-provisioning"
"""Label of nodes that were requested with flex-start."""
FLEX_START_LABELS: Mapping[str, str] = {PROVISIONING_LABEL: "flex-start"}

_NOTHING = "No request was sent to the cloud."


class Flags(TypedDict):
    """The flags of a ``SchedulingConfig``; at most one of the three is set."""

    spot: bool
    preemptible: bool
    reserved: bool


class Scheduled(Protocol):
    """A record with a provisioning model: a node, a node's spec or a queued resource."""

    @property
    def spot(self) -> bool:
        """Whether the flag ``spot`` is set."""

    @property
    def preemptible(self) -> bool:
        """Whether the flag ``preemptible`` is set."""

    @property
    def reserved(self) -> bool:
        """Whether the flag ``reserved`` is set."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels. `PROVISIONING_LABEL` marks a flex-start node."""


def provisioning_of(what: Scheduled) -> Provisioning:
    """Return the provisioning model from flags and labels."""
    if what.reserved:
        return "reserved"
    if what.spot:
        return "spot"
    if what.preemptible:
        return "preemptible"
    return "flex-start" if what.labels.get(PROVISIONING_LABEL) == "flex-start" else "on-demand"


def flags_of(provisioning: Provisioning) -> Flags:
    """Return the flags of a model, in the form in which `NodeSpec` stores them; flex-start has no flag."""
    return Flags(
        spot=provisioning == "spot", preemptible=provisioning == "preemptible", reserved=provisioning == "reserved"
    )


def check_flags(*, spot: bool, preemptible: bool, reserved: bool) -> None:
    """Check that at most one flag is set; raises BadInput otherwise."""
    named = [name for name, is_set in (("spot", spot), ("preemptible", preemptible), ("reserved", reserved)) if is_set]
    if len(named) > 1:
        raise BadInput(
            Text("A node cannot be {flags} at the same time.", flags=" and ".join(named)),
            exists=_NOTHING,
            hint="Choose one of them.",
        )


def parse_provisioning(name: str | None, *, spot: bool | None = None) -> Provisioning:
    """Return the model that the user named or that `spot` alone implies; the default is on-demand.

    Raises:
        BadInput: there is no such model, or the two arguments contradict each other.
    """
    if name is None:
        return "spot" if spot else "on-demand"
    found = next((model for model in PROVISIONING_MODELS if model == name), None)
    if found is None:
        raise BadInput(
            Text("{provisioning} is not a provisioning model.", provisioning=repr(name[:40])),
            exists=_NOTHING,
            hint=Text("Use one of these provisioning models: {models}.", models=", ".join(PROVISIONING_MODELS)),
        )
    if spot is not None and spot != (found == "spot"):
        raise BadInput(
            Text(
                "The provisioning model {provisioning} and spot={spot} contradict each other.",
                provisioning=found,
                spot=str(spot).lower(),
            ),
            exists=_NOTHING,
            hint="Omit the provisioning model or spot.",
        )
    return found


def can_be_preempted(provisioning: Provisioning) -> bool:
    """Return whether the cloud may pre-empt a node with this model at any time."""
    return provisioning in ("spot", "preemptible")


def can_start_again(provisioning: Provisioning) -> bool:
    """Return whether a node can be restarted after a stop (gcloud 528.0.0 command_lib/compute/tpus/flags.yaml)."""
    return provisioning not in ("spot", "preemptible")


def takes_preemptible_quota(provisioning: Provisioning) -> bool:
    """Return whether a node uses preemptible quota, as spot, preemptible and flex-start nodes do.

    Source: cloud.google.com/tpu/docs/request-using-flex-start.
    """
    return provisioning in ("spot", "preemptible", "flex-start")


def is_grantable(provisioning: Provisioning) -> bool:
    """Return whether a TRC grant can cover a node: grant emails list on-demand, spot and preemptible chips."""
    return provisioning in ("on-demand", "spot", "preemptible")


def price_mode(provisioning: Provisioning) -> str:
    """Return the mode for `accelerators.price_in_mode`; preemptible nodes cost the same as spot nodes.

    No price list has a price for reserved nodes, because the reservation is billed under a separate contract, whether
    or not it is used.
    """
    return "spot" if provisioning == "preemptible" else provisioning
