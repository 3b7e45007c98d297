"""One cloud has one set of budgets, by whichever name it is reached."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.cloud import CloudSettings, connect_cloud
from jupyter_tpu.errors import BudgetExceeded
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST."])
async def test_another_spelling_of_the_endpoint_has_the_same_used_up_budget(bench: Any, host: str) -> None:
    journal = bench.journal()
    fleet: Fleet = await bench.fleet(BudgetEnforcer, journal=journal)
    assert (await fleet.wait((await fleet.create(bench.spec())).intent_id)).succeeded
    budget = {"amount": 1e-9, "unit": "usd", "period": "total", "action": "stop"}
    SpendLedger(journal, bench.cloud.settings).set_budget("mine", budget, now=1.0)
    spelled = bench.emulator.grpc.replace("127.0.0.1", host)
    other = await connect_cloud(CloudSettings(project=bench.emulator.project, endpoint=spelled))
    try:
        with pytest.raises(BudgetExceeded):
            await BudgetEnforcer(other, journal).check_create(bench.spec("another"), accept_unknown_price=False)
    finally:
        await other.aclose()
    assert [bill["name"] for bill in bench.emulator.control.ledger()["nodes"]] == [str(bench.name())]
