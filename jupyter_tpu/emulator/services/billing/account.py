"""The one billing account of the emulated project."""

from __future__ import annotations

from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.services.requests.errors import foreign

ACCOUNT_ID = "01E5D0-7B0000-00DE30"
ACCOUNT = f"billingAccounts/{ACCOUNT_ID}"


@assumed("billing-account", "The project is billed to one open account in USD, 01E5D0-7B0000-00DE30, without a parent.")
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
    """Raise a 403 for any account but the emulated one."""
    if account != ACCOUNT_ID:
        raise foreign(permission, f"cloudbilling.googleapis.com/billingAccounts/{account}")
