"""Cloud Quotas' preferences: requests for other limits, which the project's switch grants, denies or holds."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.limits.quota_ids import QuotaId, parse_quota_id
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.quota.limits import SERVICE, EngineLimits, places
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.calls import Method, ServiceCall, enum_word, page
from jupyter_tpu.emulator.services.requests.errors import (
    below_usage,
    entity_exists,
    invalid_argument,
    missing,
    stale_etag,
)
from jupyter_tpu.emulator.services.requests.project import GLOBAL, check_global, check_project
from jupyter_tpu.emulator.store.documents import Documents, etag_of, timestamp

_SHAPE = {
    "name": shapes.text,
    "dimensions": shapes.texts_by_name,
    "quotaConfig": {
        "preferredValue": shapes.int64,
        "annotations": shapes.texts_by_name,
        **dict.fromkeys(("grantedValue", "stateDetail", "traceId", "requestOrigin"), shapes.anything),
    },
    "etag": shapes.text,
    "service": shapes.text,
    "quotaId": shapes.text,
    "justification": shapes.text,
    "contactEmail": shapes.text,
    **dict.fromkeys(("createTime", "updateTime", "reconciling"), shapes.anything),
}
_ID = re.compile(r"[a-zA-Z0-9][-_a-zA-Z0-9]{0,127}")
_CHANGEABLE = ("quotaConfig", "justification", "contactEmail")
_ORDER = re.compile(r"\s*(service|quotaId|quota_id|createTime|create_time|updateTime|update_time)(?:\s+(asc|desc))?\s*")
_BELOW_USAGE = "QUOTA_DECREASE_BELOW_USAGE"
_SAFETY_CHECKS = ("QUOTA_SAFETY_CHECK_UNSPECIFIED", _BELOW_USAGE, "QUOTA_DECREASE_PERCENTAGE_TOO_HIGH")
_FILTER = re.compile(r'\s*(service|quotaId|quota_id|reconciling)\s*[=:]\s*"?([-.\w]+)"?\s*')


class QuotaPreferences:
    """The quota preferences, at most one per quota and location; a granted one becomes the engine's limit."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._limits = EngineLimits(cloud)
        self._documents = Documents(cloud.store, "quota_preferences")

    def methods(self, version: str) -> list[Method]:
        """Return the methods of a version."""
        parent = f"{version}/projects/{{project}}/{GLOBAL}/quotaPreferences"
        name = parent + "/{preference}"
        read, write = "cloudquotas.quotas.get", "cloudquotas.quotas.update"
        return [
            Method(verb="GET", path=parent, answer=self.list_all, permission=read),
            Method(verb="POST", path=parent, answer=self.create, permission=write),
            Method(verb="GET", path=name, answer=self.get, permission=read),
            Method(verb="PATCH", path=name, answer=self.patch, permission=write),
        ]

    def list_all(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``quotaPreferences.list``."""
        parent = self._parent(call)
        wanted = call.query.get("filter", "")
        found = (self._shown(parent, each) for each in self._documents.all())
        chosen = [each for each in found if _is_wanted(each, wanted)]
        return page(call, "quotaPreferences", _in_order(chosen, call.query.get("orderBy", "")))

    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``quotaPreferences.get``."""
        return self._shown(self._parent(call), call.parts["preference"])

    def create(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``quotaPreferences.create``."""
        parent = self._parent(call)
        preference_id = call.query.get("quotaPreferenceId") or f"auto-{secrets.token_hex(8)}"
        if not _ID.fullmatch(preference_id):
            raise invalid_argument(f"quotaPreferenceId {preference_id[:80]!r} is not valid.", "quotaPreferenceId")
        if self._documents.get(preference_id) is not None:
            raise entity_exists(f"{parent}/quotaPreferences/{preference_id}")
        return self._make(parent, preference_id, call)

    @documented(
        "preference-etag",
        "A change with an etag that is not the current one is refused with ABORTED.",
        source="Cloud Quotas API, QuotaPreference.etag",
    )
    @documented(
        "preference-fixed", "Quota, service and dimensions of a preference do not change.", source="Cloud Quotas API"
    )
    def patch(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``quotaPreferences.patch``."""
        parent, preference = self._parent(call), call.parts["preference"]
        shapes.check_shape(call.body, _SHAPE, "quota_preference")
        old = self._documents.get(preference)
        # then a patch creates, as the proto documents
        if old is None and call.flag("allowMissing"):
            return self._make(parent, preference, call)
        current = self._shown(parent, preference)
        if call.body.get("etag") and call.body["etag"] != current["etag"]:
            raise stale_etag(current["name"])
        changed = {**(old or {}), **_changes(call)}
        self._check_decrease(preference, changed, call)
        return self._decided(parent, preference, changed, is_trial=call.flag("validateOnly"))

    def _make(self, parent: str, preference: str, call: ServiceCall) -> Mapping[str, Any]:
        shapes.check_shape(call.body, _SHAPE, "quota_preference")
        quota = _quota_of(call.body)
        dimensions = _dimensions_of(call.body, quota)
        for name, other in self._documents.all().items():
            # two preferences for one place would contradict each other
            if (other["quotaId"], other["dimensions"]) == (str(quota), dimensions):
                raise entity_exists(f"{parent}/quotaPreferences/{name}")
        document = {
            "service": SERVICE,
            "quotaId": str(quota),
            "dimensions": dimensions,
            "createTime": timestamp(self._cloud.clock.now()),
            **{name: call.body[name] for name in _CHANGEABLE if name in call.body},
        }
        self._check_decrease(preference, document, call)
        return self._decided(parent, preference, document, is_trial=call.flag("validateOnly"))

    @documented(
        "quota-safety-checks",
        "A decrease must not go below the usage, unless that check is ignored (the one of decreases by more than 10 "
        "percent is never made here).",
        source="google-cloud-quotas, QuotaSafetyCheck",
    )
    def _check_decrease(self, preference: str, document: Mapping[str, Any], call: ServiceCall) -> None:
        quota, wanted = parse_quota_id(document["quotaId"]), _preferred_value(document)
        if _BELOW_USAGE in _ignored_checks(call):
            return
        used = self._limits.used()
        for place in self._places(quota, document, preference):
            is_less = _size(wanted) < _size(self._limits.limit(quota, place))
            if is_less and wanted < used[quota, place]:
                raise below_usage(str(quota), place, wanted, used[quota, place])

    @assumed(
        "preference-verdict",
        "A request for less, or for the present limit, is granted at once. A request for more is granted, denied "
        "(reconciling false, the old value granted) or held (reconciling true) as the switch quota_requests says; a "
        "held one is decided when it is next read after the switch was changed.",
    )
    def _decided(self, parent: str, preference: str, document: dict[str, Any], is_trial: bool) -> Mapping[str, Any]:
        quota, wanted = parse_quota_id(document["quotaId"]), _preferred_value(document)
        here = self._places(quota, document, preference)
        current = min((self._limits.limit(quota, place) for place in here), key=_size, default=0)
        # a request for less needs no review
        verdict = "grant" if _size(wanted) <= _size(current) else self._verdict
        decided = {
            **document,
            "quotaConfig": {
                **_annotations(document),
                "preferredValue": str(wanted),
                **_outcome(verdict, wanted, current),
            },
            "reconciling": verdict == "hold",
            "updateTime": timestamp(self._cloud.clock.now()),
        }
        # validateOnly answers what would happen, and stores nothing
        if not is_trial:
            self._documents.save(preference, decided)
            for place in here if verdict == "grant" else ():
                self._limits.set_limit(quota, place, wanted)
            self._cloud.timeline.arm()
        return self._rendered(parent, preference, decided)

    @property
    def _verdict(self) -> str:
        return self._cloud.rules.project.switches.quota_requests

    def _settle(self, parent: str) -> None:
        """Decide the requests that were held, if the switch allows it now."""
        if self._verdict != "hold":
            for preference, document in self._documents.all().items():
                if document["reconciling"]:
                    self._decided(parent, preference, document, is_trial=False)

    def _places(self, quota: QuotaId, document: Mapping[str, Any], preference: str) -> list[str]:
        """Return where a preference applies."""
        dimensions = document["dimensions"]
        return [dimensions[quota.scope]] if dimensions else self._places_left(quota, preference)

    def _places_left(self, quota: QuotaId, preference: str) -> list[str]:
        """Return all places of a quota but those of other preferences."""
        # a preference for all places leaves out those that have one of their own
        others = {
            document["dimensions"].get(quota.scope)
            for name, document in self._documents.all().items()
            if name != preference and document["quotaId"] == str(quota)
        }
        return [place for place in places(quota.scope) if place not in others]

    def _shown(self, parent: str, preference: str) -> dict[str, Any]:
        document = self._documents.get(preference)
        if document is None:
            raise missing(f"{parent}/quotaPreferences/{preference}")
        return self._rendered(parent, preference, document)

    def _rendered(self, parent: str, preference: str, document: Mapping[str, Any]) -> dict[str, Any]:
        # input only: the API does not show it again
        shown = {name: value for name, value in document.items() if name != "contactEmail" and value not in ({}, False)}
        return {"name": f"{parent}/quotaPreferences/{preference}", **shown, "etag": etag_of(document)}

    def _parent(self, call: ServiceCall) -> str:
        check_global(call)
        parent = f"projects/{check_project(self._cloud, call, 'cloudquotas.quotas.get')}/locations/global"
        # decided at the next read, so that no timer is needed
        self._settle(parent)
        return parent


def _changes(call: ServiceCall) -> dict[str, Any]:
    """Return the fields that a patch replaces: those of its mask, or all that it has."""
    mask = call.mask() or tuple(name for name in _CHANGEABLE if name in call.body)
    for path in mask:
        if path.partition(".")[0] not in _CHANGEABLE:
            raise invalid_argument(f"{path[:80]!r} cannot be changed.", "updateMask")
    return {name: call.body.get(name, {}) for name in {path.partition(".")[0] for path in mask}}


def _annotations(document: Mapping[str, Any]) -> dict[str, Any]:
    annotations = document["quotaConfig"].get("annotations")
    return {"annotations": annotations} if annotations else {}


def _outcome(verdict: str, wanted: int, current: int) -> dict[str, str]:
    if verdict == "grant":
        return {"grantedValue": str(wanted)}
    details = {"deny": "Denied: the project has not enough usage history.", "hold": "Waiting for review."}
    return {"grantedValue": str(current), "stateDetail": details[verdict], "traceId": secrets.token_hex(16)}


def _size(value: int) -> float:
    """Return a limit for comparison: -1 is more than any."""
    return float("inf") if value < 0 else value


@documented("preferred-value", "A preference must have a preferredValue.", source="google-cloud-quotas, QuotaConfig")
@assumed("preferred-value-zero", "Over gRPC, which cannot tell it from a missing one, a value of 0 counts as given.")
def _preferred_value(document: Mapping[str, Any]) -> int:
    given = (document.get("quotaConfig") or {}).get("preferredValue")
    if given is None:
        raise invalid_argument("quotaConfig.preferredValue must be set.", "quotaPreference.quotaConfig.preferredValue")
    value = int(given)
    if value < -1:
        raise invalid_argument("quotaConfig.preferredValue must be at least -1.", "quotaPreference.quotaConfig")
    return value


def _ignored_checks(call: ServiceCall) -> list[str]:
    name = "ignoreSafetyChecks"
    return [enum_word(value, _SAFETY_CHECKS, name) for value in call.lists.get(name, ())]


@documented(
    "preference-order",
    "Lists of preferences are ordered by create time, or by the fields of orderBy, with commas between.",
    source="google-cloud-quotas, ListQuotaPreferencesRequest.order_by",
)
@assumed("preference-order-fields", "They can be ordered by service, quotaId, createTime and updateTime, also desc.")
def _in_order(found: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    for part in reversed([part for part in order.split(",") if part.strip()]):
        match = _ORDER.fullmatch(part)
        if match is None:
            raise invalid_argument(f"orderBy {part[:80]!r} is not supported.", "orderBy")
        name = {"quota_id": "quotaId", "create_time": "createTime", "update_time": "updateTime"}.get(match[1], match[1])
        found = sorted(found, key=itemgetter(name), reverse=match[2] == "desc")
    return found


def _quota_of(body: Mapping[str, Any]) -> QuotaId:
    if body.get("service") != SERVICE:
        raise invalid_argument(f"The emulated project has quotas of {SERVICE} only.", "quotaPreference.service")
    if "quotaConfig" not in body:
        raise invalid_argument("quotaConfig must be set.", "quotaPreference.quotaConfig")
    try:
        return parse_quota_id(body.get("quotaId", ""))
    except ValueError as error:
        raise invalid_argument(str(error), "quotaPreference.quotaId") from error


def _dimensions_of(body: Mapping[str, Any], quota: QuotaId) -> dict[str, str]:
    """Return the one zone or region of a preference; empty means every place."""
    dimensions, here = dict(body.get("dimensions") or {}), places(quota.scope)
    if not set(dimensions) <= {quota.scope} or dimensions.get(quota.scope, here[0]) not in here:
        raise invalid_argument(
            f"The dimensions of {quota} are a {quota.scope} with TPUs, or none.", "quotaPreference.dimensions"
        )
    return dimensions


@assumed(
    "preference-filter", "Lists of preferences understand filters such as quotaId=ID, joined by AND, and no others."
)
def _is_wanted(preference: Mapping[str, Any], expression: str) -> bool:
    return all(_matches(preference, part) for part in re.split(r"\bAND\b", expression) if part.strip())


def _matches(preference: Mapping[str, Any], part: str) -> bool:
    match = _FILTER.fullmatch(part)
    if match is None:
        raise invalid_argument(f"The filter {part[:80]!r} is not supported.", "filter")
    name = {"quota_id": "quotaId"}.get(match[1], match[1])
    return str(preference.get(name, False)).lower() == match[2].lower()
