"""Cloud Billing v1: the price catalogue, the billing account and the projects that it pays for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.billing.skus import CLOUD_TPU, COMPUTE_ENGINE, skus_of
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.errors import foreign, invalid_argument, missing
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, Method, ServiceCall, check_project, page
from jupyter_tpu.emulator.store.settings import StoredSetting

ACCOUNT_ID = "01E5D0-7B0000-00DE30"
ACCOUNT = f"billingAccounts/{ACCOUNT_ID}"
_SERVICES = {COMPUTE_ENGINE: "Compute Engine", CLOUD_TPU: "Cloud TPU"}
_OWNS = (
    r"v1/(?:services(?:/.*)?|projects/[^/]+/billingInfo|billingAccounts(?:[/:].*)?"
    r"|organizations/[^/]+/billingAccounts(?:/.*)?|(?:tasks/|message:|card).*)"
)
_INFO = "v1/projects/{project}/billingInfo"
_INFO_SHAPE = {
    "billingAccountName": shapes.text,
    **dict.fromkeys(("name", "projectId", "billingEnabled"), shapes.anything),
}


def billing_service(cloud: Cloud) -> GoogleService:
    """Return the service with its methods."""
    return GoogleService(name="cloudbilling", owns=_OWNS, methods=tuple(Billing(cloud).methods()))


class Billing:
    """The API methods. All callers can read prices; the other methods require an IAM permission."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._setting = StoredSetting(cloud.store, "project:billing")

    def methods(self) -> list[Method]:
        """Return the API's methods with their permissions."""
        accounts = "v1/billingAccounts"
        see, change = "resourcemanager.projects.get", "resourcemanager.projects.createBillingAssignment"
        return [
            # no permission is required: anyone with an API key can read the prices
            Method(verb="GET", path="v1/services", answer=self.services),
            Method(verb="GET", path="v1/services/{service}/skus", answer=self.skus),
            Method(verb="GET", path=accounts, answer=self.accounts, permission="billing.accounts.list"),
            Method(verb="GET", path=accounts + "/{account}", answer=self.account, permission="billing.accounts.get"),
            Method(
                verb="GET",
                path=accounts + "/{account}/projects",
                answer=self.projects,
                permission="billing.resourceAssociations.list",
            ),
            Method(verb="GET", path=_INFO, answer=self.billing_info, permission=see),
            Method(verb="PUT", path=_INFO, answer=self.set_billing_info, permission=change),
        ]

    @assumed("billing-services", "The emulator's catalogue contains two services: Compute Engine and Cloud TPU.")
    def services(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``services.list``: return Compute Engine and Cloud TPU."""
        found = [
            {
                "name": f"services/{service}",
                "serviceId": service,
                "displayName": title,
                "businessEntityName": "businessEntities/GCP",
            }
            for service, title in _SERVICES.items()
        ]
        return page(call, "services", list(found))

    @documented(
        "sku-currency",
        "Prices are in USD unless another currency is requested (the emulator refuses other currencies).",
        source="Cloud Billing API, services.skus.list",
    )
    def skus(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``services.skus.list``: return one page of a service's SKUs."""
        service = call.parts["service"]
        # the real catalogue has many more services; these two sell TPUs
        if service not in _SERVICES:
            raise missing(f"services/{service}")
        if call.query.get("currencyCode", "USD") not in ("USD", ""):
            raise invalid_argument("The emulator lists prices in USD only.", "currencyCode")
        return page(call, "skus", list(skus_of(service)))

    def accounts(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``billingAccounts.list``: return the only billing account."""
        return page(call, "billingAccounts", [billing_account()])

    def account(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``billingAccounts.get``: return the billing account."""
        check_account(call.parts["account"])
        return billing_account()

    def projects(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``billingAccounts.projects.list``: return the project if its billing is enabled."""
        check_account(call.parts["account"])
        info = self._info()
        return page(call, "projectBillingInfo", [info] if info["billingEnabled"] else [])

    def billing_info(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``projects.getBillingInfo``: return the billing account of the project."""
        check_project(self._cloud, call, "resourcemanager.projects.get")
        return self._info()

    @documented(
        "billing-off",
        "Setting an empty account name turns billing off for the project.",
        source="Cloud Billing API, projects.updateBillingInfo",
    )
    @assumed("billing-off-stops-nothing", "In the emulator, a project without billing keeps its nodes.")
    def set_billing_info(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``projects.updateBillingInfo``: link or unlink the billing account of the project."""
        check_project(self._cloud, call, "resourcemanager.projects.createBillingAssignment")
        shapes.check_shape(call.body, _INFO_SHAPE, "project_billing_info")
        account = call.body.get("billingAccountName") or ""
        if account:
            check_account(account.removeprefix("billingAccounts/"), "billing.resourceAssociations.create")
        with self._cloud.store.transaction():
            self._setting.write({"info": {"account": account}})
        return self._info()

    def _info(self) -> dict[str, Any]:
        stored = self._setting.read()
        account = stored["info"]["account"] if stored else ACCOUNT
        return {
            "name": f"projects/{self._cloud.project}/billingInfo",
            "projectId": self._cloud.project,
            "billingAccountName": account,
            "billingEnabled": bool(account),
        }


@assumed(
    "billing-account",
    "The project is linked to one open billing account in USD, 01E5D0-7B0000-00DE30, which has no parent.",
)
def billing_account() -> dict[str, Any]:
    """Return the account as Cloud Billing shows it."""
    return {
        "name": ACCOUNT,
        "open": True,
        "displayName": "Emulated billing account (nothing here costs money)",
        "masterBillingAccount": "",
        "currencyCode": "USD",
    }


def check_account(account: str, permission: str = "billing.accounts.get") -> None:
    """Raise a 403 for any account except the emulated one."""
    if account != ACCOUNT_ID:
        raise foreign(permission, f"cloudbilling.googleapis.com/billingAccounts/{account}")
