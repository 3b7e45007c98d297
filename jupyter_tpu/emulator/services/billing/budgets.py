"""Billing Budgets v1: budgets of the emulated billing account, stored as they are written."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.billing.account import check_account
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.calls import GoogleService, Method, ServiceCall, page
from jupyter_tpu.emulator.services.requests.errors import invalid_argument, missing, stale_etag
from jupyter_tpu.emulator.store.documents import Documents, etag_of

_MONEY = {"currencyCode": shapes.text, "units": shapes.int64, "nanos": shapes.int64}
_DATE = {"year": shapes.int64, "month": shapes.int64, "day": shapes.int64}
_SHAPE = {
    "name": shapes.anything,
    "displayName": shapes.text,
    "amount": {"specifiedAmount": _MONEY, "lastPeriodAmount": {}},
    "budgetFilter": {
        "projects": [shapes.text],
        "resourceAncestors": [shapes.text],
        "creditTypes": [shapes.text],
        "creditTypesTreatment": shapes.one_of(
            "CREDIT_TYPES_TREATMENT_UNSPECIFIED",
            "INCLUDE_ALL_CREDITS",
            "EXCLUDE_ALL_CREDITS",
            "INCLUDE_SPECIFIED_CREDITS",
        ),
        "services": [shapes.text],
        "subaccounts": [shapes.text],
        "labels": shapes.anything,
        "calendarPeriod": shapes.one_of("CALENDAR_PERIOD_UNSPECIFIED", "MONTH", "QUARTER", "YEAR"),
        "customPeriod": {"startDate": _DATE, "endDate": _DATE},
    },
    "thresholdRules": [
        {
            "thresholdPercent": shapes.number,
            "spendBasis": shapes.one_of("BASIS_UNSPECIFIED", "CURRENT_SPEND", "FORECASTED_SPEND"),
        }
    ],
    "notificationsRule": {
        "pubsubTopic": shapes.text,
        "schemaVersion": shapes.text,
        "monitoringNotificationChannels": [shapes.text],
        "disableDefaultIamRecipients": shapes.boolean,
        "enableProjectLevelRecipients": shapes.boolean,
    },
    "etag": shapes.text,
    "ownershipScope": shapes.one_of("OWNERSHIP_SCOPE_UNSPECIFIED", "ALL_USERS", "BILLING_ACCOUNT"),
}
_MOST_NANOS = 999_999_999  # google.type.Money
# budgets belong to the account, not to a project
_PARENT = "v1/billingAccounts/{account}/budgets"
_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")


def budgets_service(cloud: Cloud) -> GoogleService:
    """Return the service with its methods."""
    return GoogleService(
        name="billingbudgets",
        owns=r"v1/billingAccounts/[^/]+/budgets(?:/.*)?",
        methods=tuple(Budgets(cloud).methods()),
    )


class Budgets:
    """Budgets never stop anything, as in the real service, and no notification is sent."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._documents = Documents(cloud.store, "budgets")

    def methods(self) -> list[Method]:
        """Return the methods."""
        name = _PARENT + "/{budget}"
        return [
            Method(verb="GET", path=_PARENT, answer=self.list, permission="billing.budgets.list"),
            Method(verb="POST", path=_PARENT, answer=self.create, permission="billing.budgets.create"),
            Method(verb="GET", path=name, answer=self.get, permission="billing.budgets.get"),
            Method(verb="PATCH", path=name, answer=self.patch, permission="billing.budgets.update"),
            Method(verb="DELETE", path=name, answer=self.delete, permission="billing.budgets.delete"),
        ]

    def list(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``budgets.list``."""
        check_account(call.parts["account"])
        scope = call.query.get("scope", "")
        found = [budget for budget in self._documents.all().values() if _is_of(budget, scope)]
        return page(call, "budgets", list(found))

    def get(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``budgets.get``."""
        check_account(call.parts["account"])
        name = f"billingAccounts/{call.parts['account']}/budgets/{call.parts['budget']}"
        budget = self._documents.get(name)
        if budget is None:
            raise missing(name)
        return budget

    def create(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``budgets.create``."""
        check_account(call.parts["account"])
        name = f"billingAccounts/{call.parts['account']}/budgets/{uuid.uuid4()}"
        return self._saved(name, {**call.body, "name": name})

    @documented(
        "budget-etag",
        "A change with an etag that is not the current one is refused; without one, it overwrites.",
        source="Cloud Billing Budget API, Budget.etag",
    )
    def patch(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``budgets.patch``."""
        budget = self.get(call)
        shapes.check_shape(call.body, _SHAPE, "budget")
        if call.body.get("etag") and call.body["etag"] != budget["etag"]:
            raise stale_etag(budget["name"])
        return self._saved(budget["name"], _changed(budget, call.body, call.mask()))

    def delete(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``budgets.delete``."""
        self._documents.remove(str(self.get(call)["name"]))
        return {}

    @assumed(
        "budget-defaults",
        "A budget without a currency is in USD, without a period by month, and counts credits; projects are written "
        "by number.",
    )
    def _saved(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        shapes.check_shape(body, _SHAPE, "budget")
        check_budget(body)
        budget = _filled_in({key: value for key, value in body.items() if value is not None}, self._cloud.project)
        # after the defaults: a client that sends back what it got must match
        budget["etag"] = etag_of(budget)
        self._documents.save(name, budget)
        return budget


def check_budget(body: Mapping[str, Any]) -> None:
    """Raise for the first rule that a budget breaks."""
    amount = body.get("amount") or {}
    # a oneof in the proto: exactly one kind of amount
    if len(amount) != 1:
        raise invalid_argument("budget.amount must have specifiedAmount or lastPeriodAmount.", "budget.amount")
    if (amount.get("specifiedAmount") or {}).get("currencyCode", "USD") != "USD":
        raise invalid_argument("The billing account's currency is USD.", "budget.amount.specified_amount.currency_code")
    _check_money(amount.get("specifiedAmount") or {})
    if len(body.get("displayName") or "") > 60:
        raise invalid_argument("budget.displayName must have at most 60 characters.", "budget.display_name")
    if any(rule.get("thresholdPercent", -1) < 0 for rule in body.get("thresholdRules") or ()):
        raise invalid_argument("thresholdPercent must be set and not negative.", "budget.threshold_rules")
    _check_notifications(body.get("notificationsRule") or {})


@documented(
    "money",
    "Nanos are at most 999,999,999 either way and have the sign of the units.",
    source="google.type.Money",
)
@assumed("budget-not-negative", "A budget's amount is not negative.")
def _check_money(amount: Mapping[str, Any]) -> None:
    place = "budget.amount.specified_amount"
    units, nanos = (int(amount.get(name) or 0) for name in ("units", "nanos"))
    if abs(nanos) > _MOST_NANOS:
        raise invalid_argument("nanos must be between -999,999,999 and +999,999,999.", f"{place}.nanos")
    if units * nanos < 0:
        raise invalid_argument("units and nanos must have the same sign.", f"{place}.nanos")
    if units < 0 or nanos < 0:
        raise invalid_argument("budget.amount.specifiedAmount must not be negative.", place)


@documented(
    "budget-topic",
    "A budget with a Pub/Sub topic needs schemaVersion 1.0.",
    source="Cloud Billing Budget API, NotificationsRule.schemaVersion",
)
def _check_notifications(rule: Mapping[str, Any]) -> None:
    topic = rule.get("pubsubTopic")
    if topic and (not _TOPIC.fullmatch(topic) or rule.get("schemaVersion") != "1.0"):
        raise invalid_argument(
            "pubsubTopic must be projects/*/topics/*, with schemaVersion 1.0.", "budget.notifications_rule"
        )


def _changed(budget: Mapping[str, Any], body: Mapping[str, Any], mask: tuple[str, ...]) -> dict[str, Any]:
    """Return the budget with the masked fields of `body`, or all of them without a mask."""
    changed = dict(budget)
    for path in mask or tuple(body):
        first, *rest = path.split(".")
        # the mask is checked against the fields, as the body was
        if first not in _SHAPE:
            raise invalid_argument(f"{path[:80]!r} cannot be changed.", "updateMask")
        _replace(changed, body, first, rest)
    return {**changed, "name": budget["name"]}


def _replace(target: dict[str, Any], source: Mapping[str, Any], name: str, below: list[str]) -> None:
    """Copy one field, or one below it; a field that the source lacks is removed."""
    if below:
        target[name] = dict(target.get(name) or {})
        _replace(target[name], source.get(name) or {}, below[0], below[1:])
    elif name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _filled_in(budget: Mapping[str, Any], project: str) -> dict[str, Any]:
    amount, filters = dict(budget["amount"]), dict(budget.get("budgetFilter") or {})
    if "specifiedAmount" in amount:
        amount["specifiedAmount"] = _money(amount["specifiedAmount"])
    if "customPeriod" not in filters:
        filters.setdefault("calendarPeriod", "MONTH")
    filters.setdefault("creditTypesTreatment", "INCLUDE_ALL_CREDITS")
    own = (f"projects/{project}", f"projects/{PROJECT_NUMBER}")
    if "projects" in filters:
        # Google writes projects by number, however they were given
        filters["projects"] = [own[1] if name in own else name for name in filters["projects"]]
    rules = [{"spendBasis": "CURRENT_SPEND", **rule} for rule in budget.get("thresholdRules") or ()]
    return {
        **budget,
        "amount": amount,
        "budgetFilter": filters,
        **({"thresholdRules": rules} if rules else {}),
        "ownershipScope": budget.get("ownershipScope", "ALL_USERS"),
    }


def _money(amount: Mapping[str, Any]) -> dict[str, Any]:
    nanos = int(amount.get("nanos") or 0)
    return {
        "currencyCode": "USD",
        "units": str(int(amount.get("units") or 0)),
        **({"nanos": nanos} if nanos else {}),
    }


def _is_of(budget: Mapping[str, Any], scope: str) -> bool:
    """Return whether a budget counts this project; one that names no project counts all."""
    # a budget without projects counts all of the account
    named = budget.get("budgetFilter", {}).get("projects", [])
    return not scope or not named or scope in named
