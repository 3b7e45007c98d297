"""Set up a project: read its billing state, link a billing account, enable the Cloud TPU API."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudRefused, CloudUnavailable, Text, TpuError

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestClient

T = TypeVar("T")

TPU_API = "tpu.googleapis.com"
_BILLING = ("Cloud Billing API", "cloudbilling.googleapis.com", "roles/billing.projectManager")
_SERVICES = ("Service Usage API", "serviceusage.googleapis.com", "roles/serviceusage.serviceUsageAdmin")
# How long to wait for an API to be enabled. This takes seconds, rarely more than a minute, and a user is waiting for
# it.
_ENABLED_WITHIN_S = 120.0
_POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """The billing state of a project; `account` is the billing account's name, empty if none is linked."""

    is_on: bool
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingAccount:
    """A billing account that projects can be linked to, with its name ``billingAccounts/…`` and title."""

    name: str
    title: str


async def read_billing(settings: CloudSettings) -> Billing:
    """Return whether the project has billing.

    Raises:
        ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: the request was refused.
        CloudUnavailable: there was no response, or the response can't be read.
    """
    info = await _call(settings, _BILLING, lambda client: client.read(_info_path(settings), {}))
    return Billing(is_on=info.get("billingEnabled") is True, account=str(info.get("billingAccountName") or ""))


async def list_billing_accounts(settings: CloudSettings) -> tuple[BillingAccount, ...]:
    """Return the open billing accounts visible to the credentials; raise the same errors as `read_billing`."""

    def listed(client: RestClient) -> tuple[BillingAccount, ...]:
        pages = [page.get("billingAccounts", []) for page in client.pages("/v1/billingAccounts", {})]
        accounts = [account for page in pages for account in page if account.get("open")]
        return tuple(
            BillingAccount(name=str(each["name"]), title=str(each.get("displayName") or each["name"]))
            for each in accounts
        )

    return await _call(settings, _BILLING, listed)


async def link_billing_account(settings: CloudSettings, account: str) -> None:
    """Link the project to a billing account that pays for it; raise the same errors as `read_billing`."""

    def link(client: RestClient) -> None:
        status, text = client.put(_info_path(settings), {"billingAccountName": account})
        if status != 200:
            raise client.refusal(status, text)

    await _call(settings, _BILLING, link)


async def enable_tpu_api(settings: CloudSettings) -> None:
    """Enable the Cloud TPU API in the project and wait until it is enabled. Enabling it is free.

    Raises:
        CloudRefused: the request was refused, for example because the project has no billing; see also `read_billing`.
    """

    def enable(client: RestClient) -> None:
        path = f"/v1/projects/{quote(settings.project, safe=':')}/services/{TPU_API}:enable"
        status, text = client.post(path, {}, {})
        if status != 200:
            raise client.refusal(status, text)
        _wait_for(client, client.parsed(text))

    await _call(settings, _SERVICES, enable)


def _wait_for(client: RestClient, operation: Mapping[str, Any]) -> None:
    end = time.monotonic() + _ENABLED_WITHIN_S
    while not operation.get("done"):
        if time.monotonic() > end:
            raise CloudUnavailable(
                "Google Cloud is still enabling the Cloud TPU API.", hint="Check again in a few minutes."
            )
        time.sleep(_POLL_S)
        operation = client.read(f"/v1/{operation.get('name', '')}", {})
    if error := operation.get("error"):
        raise CloudRefused(
            "Google Cloud could not enable the Cloud TPU API.",
            hint=Text("Message from the cloud: {quotation}", quotation=str(error.get("message", ""))[:300]),
            raw=str(error),
        )


def _info_path(settings: CloudSettings) -> str:
    return f"/v1/projects/{quote(settings.project, safe=':')}/billingInfo"


async def _call(settings: CloudSettings, service: tuple[str, str, str], act: Callable[[RestClient], T]) -> T:
    return await asyncio.to_thread(_in_thread, settings, service, act)


def _in_thread(settings: CloudSettings, service: tuple[str, str, str], act: Callable[[RestClient], T]) -> T:
    # Importing Google's client is slow and must not block the event loop; this function runs in a thread.
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    title, host, role = service
    client: RestClient = rest.RestClient.open(settings, rest.Service(title=title, host=host, role=role), os.environ)
    with closing(client):
        try:
            return act(client)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(title, error) from error


def _unreadable(title: str, error: Exception) -> TpuError:
    return CloudUnavailable(
        Text("The response from the {service} cannot be read.", service=title),
        hint="Try again in a minute.",
        raw=repr(error),
    )
