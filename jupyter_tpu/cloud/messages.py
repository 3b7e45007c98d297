"""The error messages for the cloud's refusals: what failed, why, and what to do.

Each function turns a refused request (a `Case`) into one of our errors. The table in `jupyter_tpu.cloud.refusals`
selects the function.
"""

from __future__ import annotations

import re

from jupyter_tpu.accelerators import find_accelerator, zones_for_type
from jupyter_tpu.cloud.refusal_records import Case
from jupyter_tpu.error_actions import (
    clean_up,
    copy_command,
    elsewhere,
    enable_api,
    link_billing,
    refresh,
    search_elsewhere,
    show_quota,
)
from jupyter_tpu.errors import (
    Action,
    AddressQuotaExceeded,
    ApiDisabled,
    BadInput,
    CloudRefused,
    CloudUnavailable,
    CredentialsMissing,
    NodeExists,
    NodeNotFound,
    NotAllowlisted,
    OutOfCapacity,
    PermissionDenied,
    QuotaExceeded,
    RateExceeded,
    Text,
    TpuError,
    WrongState,
)

LOGIN_HINT = (
    "Run `gcloud auth application-default login`, or `jupyter tpu setup` to use a credentials file. If you have no "
    "account, run `jupyter tpu demo` and use a terminal in the JupyterLab that it opens."
)
LOGIN_ACTIONS = (copy_command("gcloud auth application-default login"),)


def _text(case: Case, template: str, **more: str) -> Text:
    """Return a text from a template. The template can contain the request's details and the arguments in `more`."""
    request = case.request
    facts = {
        "request": request.what,
        "project": request.project,
        "zone": request.zone or Text("this zone"),
        "accelerator_type": request.accelerator_type or Text("this accelerator type"),
        "kind": request.kind,
        **more,
    }
    return Text(template, **{name: value for name, value in facts.items() if f"{{{name}}}" in template})


def not_signed_in(case: Case) -> TpuError:
    """Return the error for missing, invalid or expired credentials."""
    return CredentialsMissing(
        _text(case, "Could not {request}: Google Cloud does not accept your credentials; they may have expired."),
        hint=LOGIN_HINT,
        actions=LOGIN_ACTIONS,
    )


def api_disabled(case: Case) -> TpuError:
    """Return the error for a project where the Cloud TPU API isn't enabled."""
    return ApiDisabled(
        _text(case, "Could not {request}: the Cloud TPU API is not enabled in project {project}."),
        hint=_text(
            case,
            "Run `gcloud services enable tpu.googleapis.com --project={project}`, wait a few minutes and try again.",
        ),
        actions=(enable_api(case.request.project),),
    )


def billing_disabled(case: Case) -> TpuError:
    """Return the error for a project without billing."""
    return PermissionDenied(
        _text(case, "Could not {request}: billing is not enabled for project {project}."),
        hint=_text(
            case, "Link a billing account: https://console.cloud.google.com/billing/linkedaccount?project={project}"
        ),
        actions=(link_billing(case.request.project),),
    )


def not_allowlisted(case: Case) -> TpuError:
    """Return the error for an accelerator type that the project may not use."""
    return NotAllowlisted(
        _text(case, "Could not {request}: project {project} is not allowed to use {accelerator_type} in {zone}."),
        hint="Waiting won't help. Choose a type and zone that your project has access to, or ask Google for access.",
        actions=_elsewhere(case),
    )


def zone_closed(case: Case) -> TpuError:
    """Return the error for a zone that doesn't exist or isn't open to the project."""
    where = Text("zone {zone}", zone=case.request.zone) if case.request.zone else Text("the zone")
    return PermissionDenied(
        _text(
            case, "Could not {request}: {where} does not exist or is not available to project {project}.", where=where
        ),
        hint=_zones_hint(case) or "Choose another zone.",
        actions=_elsewhere(case),
    )


def project_unknown(case: Case) -> TpuError:
    """Return the error for a project that doesn't exist or isn't visible to the user."""
    return PermissionDenied(
        _text(case, "Could not {request}: project {project} does not exist, or you have no access to it."),
        hint="Check the project ID (`gcloud projects list`); set it with --project or JUPYTER_TPU_PROJECT.",
        actions=(copy_command("gcloud projects list"),),
    )


def permission_denied(case: Case) -> TpuError:
    """Return the error for a missing IAM permission."""
    found = re.search(r"[Pp]ermission '([\w.]+)'", case.refusal.message)
    return PermissionDenied(
        _text(
            case, "Could not {request}: you lack the permission {permission} in project {project}.", permission=found[1]
        )
        if found
        else _text(case, "Could not {request}: you lack a permission in project {project}."),
        hint=_text(
            case,
            "Ask an owner of the project for the role TPU Admin: `gcloud projects add-iam-policy-binding "
            "{project} --member=user:YOUR_EMAIL --role=roles/tpu.admin`.",
        ),
        actions=(
            copy_command(
                f"gcloud projects add-iam-policy-binding {case.request.project} "
                "--member=user:YOUR_EMAIL --role=roles/tpu.admin"
            ),
        ),
    )


def quota(case: Case) -> TpuError:
    """Return the error for an exhausted quota."""
    limit = _quota_limit(case).rstrip()
    return QuotaExceeded(
        _text(case, "Could not {request}: a quota of project {project} is used up. {limit}", limit=limit)
        if limit
        else _text(case, "Could not {request}: a quota of project {project} is used up."),
        hint="Waiting won't help. `jupyter tpu quota` shows what uses the quota, and `jupyter tpu cleanup` "
        "deletes resources that you don't need (PREEMPTED and STOPPED nodes and finished queued resources"
        " also count). You can also choose another zone or request more quota.",
        actions=(show_quota(case.request.zone), clean_up(), *_search(case)),
    )


def _quota_limit(case: Case) -> str:
    """Return ``Limit: 4 in zone us-east5-a.`` if the cloud specified the limit, else the cloud's description.

    The limit's id is only in the details (the error's `raw`).
    """
    limit = re.search(r"Limit: ([^\[\n]+?)\.?(?: \[|$)", case.refusal.message, re.MULTILINE)
    if limit:
        return f"Limit: {limit[1]}."
    return re.sub(r"Quota '[^']*' exhausted\. ?", "", " ".join(case.refusal.violations))


def rate(case: Case) -> TpuError:
    """Return the error for too many requests per minute."""
    return RateExceeded(
        _text(case, "Could not {request}: project {project} sent too many requests in a short time."),
        hint="Wait a minute and try again.",
    )


def address_quota(case: Case) -> TpuError:
    """Return the error for a region without free external IP addresses."""
    return AddressQuotaExceeded(
        _text(case, "Could not {request}: the project's limit of external IP addresses in the region is used up."),
        hint="Delete VMs or nodes that use an external address, choose another region, or request more quota "
        "(IN_USE_ADDRESSES). If this machine is in the node's network, you can also create the node with "
        "internal addresses only.",
        actions=_search(case),
    )


def reservation(case: Case) -> TpuError:
    """Return the error for an exhausted reservation."""
    return OutOfCapacity(
        _text(case, "Could not {request}: the reservation has no free capacity."),
        hint="Delete nodes that use the reservation, or create the node without a reservation.",
    )


def exhausted(case: Case) -> TpuError:
    """Return the error for RESOURCE_EXHAUSTED without details: a stock-out if TPUs are requested, else a rate limit."""
    return stock_out(case) if case.request.takes_capacity else rate(case)


def stock_out(case: Case) -> TpuError:
    """Return the error for a zone without free capacity."""
    where = Text("zone {zone}", zone=case.request.zone) if case.request.zone else Text("the zone")
    others = _other_zones(case)
    return OutOfCapacity(
        _text(case, "Could not {request}: {where} has no capacity for a {accelerator_type} now.", where=where)
        if case.request.accelerator_type
        else _text(case, "Could not {request}: {where} has no capacity now.", where=where),
        hint=_text(
            case, "Try again later, or choose another zone. Zones that offer {accelerator_type}: {zones}.", zones=others
        )
        if others
        else "Try again later.",
        actions=elsewhere(case.request.spec, queue=True) if case.request.spec else (),
    )


def not_in_zone(case: Case) -> TpuError:
    """Return the error for an accelerator type that a zone doesn't offer."""
    what = case.request.accelerator_type or "This accelerator type"
    return BadInput(
        _text(case, "Could not {request}: {accelerator_type} is not offered in {zone}.", accelerator_type=what),
        hint=_zones_hint(case) or "Choose another zone or type.",
        actions=_elsewhere(case),
    )


def wrong_state(case: Case) -> TpuError:
    """Return the error for a node whose state doesn't allow the request."""
    state = re.search(r"while in state (\w+)", case.refusal.message)
    return WrongState(
        _text(case, "Could not {request}: the node is {state}.", state=state[1])
        if state
        else _text(case, "Could not {request}: the node's current state does not allow it."),
        hint="Wait until the node's state has changed, or delete the node.",
    )


def not_found(case: Case) -> TpuError:
    """Return the error for a resource that doesn't exist."""
    return NodeNotFound(
        _text(case, "Could not {request}: there is no such {kind} in project {project}."),
        hint="`jupyter tpu list` lists the existing nodes.",
        actions=(refresh(),),
    )


def reservation_unknown(case: Case) -> TpuError:
    """Return the error for a reservation that doesn't exist."""
    return BadInput(
        _text(case, "Could not {request}: there is no such reservation."), hint="Create the node without a reservation."
    )


def exists(case: Case) -> TpuError:
    """Return the error for a resource whose name is already used."""
    return NodeExists(
        _text(case, "Could not {request}: a {kind} with that name already exists."),
        hint="Choose another name, or use or delete the existing one (`jupyter tpu list`).",
        actions=(refresh(),),
    )


def bad_request(case: Case) -> TpuError:
    """Return the error for a request that the cloud rejects as invalid."""
    return BadInput(_text(case, "Could not {request}: the cloud did not accept the request."), hint=_quoted(case))


def refused(case: Case) -> TpuError:
    """Return the error for any other refusal."""
    return CloudRefused(_text(case, "Could not {request}: the cloud refused the request."), hint=_quoted(case))


def no_answer(case: Case) -> TpuError:
    """Return the error for a cloud that doesn't respond."""
    return CloudUnavailable(
        _text(case, "Could not {request}: the Cloud TPU API is not responding."),
        hint="Check the network connection and proxy settings; if both are fine, try again in a minute.",
    )


def broken_answer(case: Case) -> TpuError:
    """Return the error for an internal error of the cloud, or for a response that is not from the cloud."""
    return CloudUnavailable(
        _text(
            case,
            "Could not {request}: the Cloud TPU API had an internal error, or the response came from "
            "elsewhere, such as a proxy.",
        ),
        hint=_text(case, "Try again in a minute. {quotation}", quotation=_quoted(case)),
    )


def _quoted(case: Case) -> str:
    # Enough for a sentence or two; the whole message is in the error's `raw`.
    text = " ".join(case.refusal.message.split())
    return Text("Message from the cloud: {quotation}", quotation=text[:300]) if text else ""


def _elsewhere(case: Case) -> tuple[Action, ...]:
    """Return ways to get the node in another zone, if the request was to create a node."""
    return elsewhere(case.request.spec) if case.request.spec else ()


def _search(case: Case) -> tuple[Action, ...]:
    return search_elsewhere(case.request.spec) if case.request.spec else ()


def _zones_hint(case: Case) -> str:
    """Return a hint that lists other zones where the catalogue offers the accelerator type."""
    others = _other_zones(case)
    return _text(case, "Zones that offer {accelerator_type}: {zones}.", zones=others) if others else ""


def _other_zones(case: Case) -> str:
    if find_accelerator(case.request.accelerator_type) is None:
        return ""
    return ", ".join(zone for zone in zones_for_type(case.request.accelerator_type) if zone != case.request.zone)
