"""Provisioning models: on which terms a node is asked for. Pure.

A node says its own in its ``SchedulingConfig``, but for flex-start, which only queued resources know (REST v2alpha1):
nodes that we ask for so carry a label of ours. Runs on the worker as well (Python 3.10, standard library only).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypedDict, get_args

from jupyter_tpu.errors import BadInput

Provisioning = Literal["on-demand", "spot", "preemptible", "reserved", "flex-start"]
PROVISIONING_MODELS: tuple[Provisioning, ...] = get_args(Provisioning)

PROVISIONING_LABEL = "jupyter-tpu-provisioning"
"""Label of nodes that were asked for by flex-start."""
FLEX_START_LABELS: Mapping[str, str] = {PROVISIONING_LABEL: "flex-start"}

_NOTHING = "Nothing was asked of the cloud."


class Flags(TypedDict):
    """The three flags of a ``SchedulingConfig``; one is set at most."""

    spot: bool
    preemptible: bool
    reserved: bool


class Scheduled(Protocol):
    """What says how it was asked for: a node, one that is wanted, or a queued resource."""

    @property
    def spot(self) -> bool: ...

    @property
    def preemptible(self) -> bool: ...

    @property
    def reserved(self) -> bool: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


def provisioning_of(what: Scheduled) -> Provisioning:
    """The model that flags and labels amount to."""
    if what.reserved:
        return "reserved"
    if what.spot:
        return "spot"
    if what.preemptible:
        return "preemptible"
    return "flex-start" if what.labels.get(PROVISIONING_LABEL) == "flex-start" else "on-demand"


def flags_of(provisioning: Provisioning) -> Flags:
    """As `NodeSpec` has them; flex-start has none of its own."""
    return Flags(
        spot=provisioning == "spot", preemptible=provisioning == "preemptible", reserved=provisioning == "reserved"
    )


def check_flags(*, spot: bool, preemptible: bool, reserved: bool) -> None:
    """Raises BadInput when more than one is set."""
    named = [name for name, is_set in (("spot", spot), ("preemptible", preemptible), ("reserved", reserved)) if is_set]
    if len(named) > 1:
        raise BadInput(f"A node cannot be {' and '.join(named)} at once.", exists=_NOTHING, hint="Choose one of them.")


def chosen(name: str | None, *, spot: bool | None = None) -> Provisioning:
    """The model that a user names, or means with `spot` alone; on demand where they say nothing.

    Raises:
        BadInput: there is no such model, or the two contradict each other.
    """
    if name is None:
        return "spot" if spot else "on-demand"
    found = next((model for model in PROVISIONING_MODELS if model == name), None)
    if found is None:
        raise BadInput(
            f"{name[:40]!r} is not a provisioning model.",
            exists=_NOTHING,
            hint=f"Use {', '.join(PROVISIONING_MODELS)}.",
        )
    if spot is not None and spot != (found == "spot"):
        raise BadInput(
            f"The provisioning model {found} and spot={str(spot).lower()} contradict each other.",
            exists=_NOTHING,
            hint="Leave out one of the two.",
        )
    return found


def is_taken_back(provisioning: Provisioning) -> bool:
    """Whether the cloud may take such a node at any time."""
    return provisioning in ("spot", "preemptible")


def can_start_again(provisioning: Provisioning) -> bool:
    """Whether such a node, once stopped, can be started (gcloud 528.0.0 command_lib/compute/tpus/flags.yaml)."""
    return provisioning not in ("spot", "preemptible")


def takes_preemptible_quota(provisioning: Provisioning) -> bool:
    """Spot and preemptible nodes do, and flex-start (cloud.google.com/tpu/docs/request-using-flex-start)."""
    return provisioning in ("spot", "preemptible", "flex-start")


def is_grantable(provisioning: Provisioning) -> bool:
    """Whether a TRC grant can be for it: the mails name on-demand chips, and spot or preemptible ones."""
    return provisioning in ("on-demand", "spot", "preemptible")


def price_mode(provisioning: Provisioning) -> str:
    """What `accelerators.price_in_mode` is asked for: preemptible nodes have the price of spot ones.

    No list has a price for reserved ones: the reservation is billed, by its own contract and whether used or not.
    """
    return "spot" if provisioning == "preemptible" else provisioning
