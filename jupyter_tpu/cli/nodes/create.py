"""The command `create`: show a node's cost, then create the node.

It uses the same fleet and journal as the Jupyter server, so the server completes or undoes a creation that is
interrupted here, and no node is requested twice.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_tpu import accelerators
from jupyter_tpu.cli.node_texts import EMULATED, costs_text, terms_text
from jupyter_tpu.cli.nodes.consent import require_known_price, run_with_consent, who_pays
from jupyter_tpu.cli.nodes.fleet_run import SIGINT_EXIT, RunningFleet, perform_request, report_end, running_fleet
from jupyter_tpu.cli.options import (
    chosen_runtime_version,
    cloud_settings,
    node_options,
    provisioning_at_once,
    types_hint,
)
from jupyter_tpu.cli.terminal import note, note_do, note_now, plain, warn
from jupyter_tpu.cloud.services.buckets import read_egress
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.i18n import _
from jupyter_tpu.models import NodeName, NodeOptions, NodeSpec
from jupyter_tpu.money.coverage import NEVER_COVERED, Coverage
from jupyter_tpu.money.egress import buckets_in, gibibytes
from jupyter_tpu.provisioning import Provisioning, flags_of

if TYPE_CHECKING:
    from jupyter_tpu.fleet import Intent


def run_create(options: argparse.Namespace) -> int:
    """Create the node, wait until it is READY and print its cost."""
    wanted = _wanted(options)
    # read the notebook first, so that no node is created if its file name is mistyped
    buckets = (
        buckets_in(Path(options.notebook).read_text(encoding="utf-8", errors="replace")) if options.notebook else ()
    )
    epoch_gib = gibibytes(options.epoch_gib) if options.epoch_gib else None
    reads = Reads(buckets=buckets, epoch_gib=epoch_gib)
    try:
        intent = run_with_consent(options, _("Create it anyway?"), lambda: _create(options, wanted, reads))
    except KeyboardInterrupt:
        _show_interrupted(wanted)
        return SIGINT_EXIT
    code = report_end(options, intent, _("{node} is READY and {costs}.", node=wanted.node_id, costs=wanted.costs))
    if cloud_settings(options).is_emulated:
        note(EMULATED)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The notebook's input data: its buckets, and the GiB read from each bucket in one epoch (None if unknown)."""

    buckets: tuple[str, ...] = ()
    epoch_gib: float | None = None


@dataclass(slots=True, kw_only=True)
class Wanted:
    """The node requested by the user, with defaults filled in.

    Attributes:
        was_asked: whether the request may have reached the cloud; set just before sending it.
        coverage: who pays for the node; None until determined.
    """

    node_id: str
    zone: str
    accelerator_type: str
    runtime_version: str
    provisioning: Provisioning
    options: NodeOptions
    was_asked: bool = False
    coverage: Coverage | None = None

    @property
    def price_text(self) -> str:
        """The node's price with its provisioning model, such as ``$9.60/h``."""
        return terms_text(self.accelerator_type, self.zone, self.provisioning)

    @property
    def costs(self) -> str:
        """The end of a sentence about the node: who pays for it, or how much it costs and until when."""
        if self.coverage and self.coverage.is_covered:
            return _("is {text}", text=_(self.coverage.text))
        costs = costs_text(self.accelerator_type, self.zone, self.provisioning)
        return _("{costs} until it is stopped or deleted", costs=costs)

    def spec(self, project: str) -> NodeSpec:
        """Return the node's specification in the project."""
        return NodeSpec(
            name=NodeName(project=project, zone=self.zone, node_id=self.node_id),
            accelerator_type=self.accelerator_type,
            runtime_version=self.runtime_version,
            **flags_of(self.provisioning),
            options=self.options,
        )


def _wanted(options: argparse.Namespace) -> Wanted:
    """Fill in the defaults. Reject an invalid request if this is possible without querying the cloud."""
    if not options.type:
        raise BadInput("A new node requires --type.", exists="Nothing was done.", hint=types_hint("--type"))
    kind = accelerators.accelerator(options.type)
    zone = options.zone or _first_zone(kind.type)
    NodeName(project="any-project", zone=zone, node_id=options.node)  # raises BadInput for an invalid name or zone
    provisioning = provisioning_at_once(options)
    return Wanted(
        node_id=options.node,
        zone=zone,
        accelerator_type=kind.type,
        runtime_version=chosen_runtime_version(options, kind),
        provisioning=provisioning,
        options=node_options(options),
    )


def _first_zone(accelerator_type: str) -> str:
    zones = accelerators.zones_for_type(accelerator_type)
    if not zones:
        raise BadInput(Text("No zone is known for {type}.", type=accelerator_type), hint="Choose one with --zone.")
    return zones[0]


async def _create(options: argparse.Namespace, wanted: Wanted, reads: Reads) -> Intent:
    async with running_fleet(options) as (opened, progress):
        spec = wanted.spec(opened.settings.project)
        # show who pays before creating anything, while Ctrl-C still costs nothing
        wanted.coverage = await who_pays(opened, spec)
        await require_known_price(options, opened, [spec])
        note(
            _(
                "{node} in {zone} will be {text}.",
                node=wanted.node_id,
                zone=wanted.zone,
                text=plain(_(wanted.coverage.text)),
            )
        )
        if wanted.coverage.is_covered or wanted.coverage.detail:  # the user has a grant
            note(_("Never covered by a grant: {services}.", services="; ".join(map(_, NEVER_COVERED))))
        await _show_egress(opened, wanted, reads)
        progress.show(
            _(
                "Creating {node} in {zone}: {type}, {price_text} when READY",
                node=wanted.node_id,
                zone=wanted.zone,
                type=wanted.accelerator_type,
                price_text=wanted.price_text,
            )
        )
        # from here on, Ctrl-C may leave a node behind
        wanted.was_asked = True
        accepts = options.accept_unknown_price
        return await perform_request(
            opened, lambda fleet: fleet.create(spec, accept_unknown_price=accepts), ssh_user=options.ssh_user
        )


async def _show_egress(work: RunningFleet, wanted: Wanted, reads: Reads) -> None:
    for egress in await read_egress(work.settings, reads.buckets, wanted.zone, epoch_gib=reads.epoch_gib):
        if egress.is_warning:
            warn(_(egress.text))
        else:
            note(plain(_(egress.text)))


def _show_interrupted(wanted: Wanted) -> None:
    """Print the state after Ctrl-C: the intent is in the journal, and the cloud may already be performing it."""
    if not wanted.was_asked:
        note("\n" + _("interrupted: no request was sent to the cloud."))
        return
    where = _(
        "interrupted: {node} in {zone} may exist, or may still be created.", node=wanted.node_id, zone=wanted.zone
    )
    note(f"\n{where}")
    begins = _("billing starts when the node is READY ({price}), even if you don't wait here.", price=wanted.price_text)
    note_now(begins)
    note_do(f"jupyter tpu delete {wanted.node_id} --zone {wanted.zone}")
