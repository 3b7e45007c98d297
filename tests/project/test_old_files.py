"""What earlier versions have written on disk opens unchanged.

`before_the_packages/` was written by the version before the modules were moved into packages: by its commands against
an emulated cloud, and by its agent for one kernel that ran four cells.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_tpu.agent.autostop.policy import AutostopPolicy
from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.agent.recording.record import Record
from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.fleet.autostop.autostop_settings import AutostopSettings
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.journal.search_store import Searches
from jupyter_tpu.journal.user_documents import Documents
from jupyter_tpu.models import NODE_OPTIONS, Node, NodeName

OLD = Path(__file__).with_name("before_the_packages")
HERE = {"endpoint": "127.0.0.1:18471", "project": "demo-project"}
ALPHA = NodeName(project="demo-project", zone="us-central1-a", node_id="alpha")
AT = 1795458090.0


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        database.executescript((OLD / "journal.sql").read_text(encoding="utf-8"))
    return Journal.open(tmp_path)


def test_the_journal_opens_as_it_is(journal: Journal, tmp_path: Path) -> None:
    assert not journal.notices
    assert not list(tmp_path.glob("*.damaged-*"))


def test_intents_are_read(journal: Journal) -> None:
    intent = journal.find("c00e42ae83bd242f")
    assert intent
    assert (intent.node_name.node_id, intent.phase, intent.settled) == ("gamma", "ready", True)


def test_money_is_read(journal: Journal) -> None:
    account = SpendLedger(journal, CloudSettings(**HERE)).account(AT)
    assert {budget.name for budget in account.budgets} == {"hours", "weekly"}
    assert {span.name.node_id: round(span.usd_per_hour or 0, 2) for span in account.spans} == {
        "alpha": 9.6,
        "beta": 4.8,
        "gamma": 4.8,
    }
    (grant,) = Grants(journal, **HERE).read().grants
    assert (grant.name, sum(row.chips for row in grant.rows)) == ("trc", 96)


def test_auto_stop_rules_and_standing_choices_are_read(journal: Journal) -> None:
    alpha = Node(name=ALPHA, uid="821407487961289608", accelerator_type="v5litepod-8", state="READY")
    laid = AutostopSettings(journal, CloudSettings(**HERE)).read([alpha])[str(ALPHA)]
    assert (laid.rules.idle_after_s, laid.rules.session_s) == (5400.0, 36000.0)
    assert laid.keep.until is not None
    (recovery,) = Recoveries(journal, **HERE).all()
    assert recovery.spec.name == ALPHA
    (search,) = Searches(journal, **HERE).all()
    assert [(each.zone, each.accelerator_type) for each in search.candidates] == [("us-central1-a", "v5litepod-4")]
    actions = [entry.action for entry in Audit(journal, **HERE).newest(100)]
    assert {"budget", "grant", "brakes", "keep", "recover-on"} <= set(actions)


def test_a_standing_choice_of_a_version_with_fewer_fields_can_be_changed(journal: Journal) -> None:
    documents, recoveries = Documents(journal, **HERE), Recoveries(journal, **HERE)
    (written,) = documents.all("recovery")
    spec = {name: value for name, value in written.body["spec"].items() if name not in NODE_OPTIONS}
    fewer = {name: value for name, value in written.body.items() if name != "chosen_at_of_cloud"}
    documents.put("recovery", written.name, {**fewer, "spec": spec}, now=AT)
    (recovery,) = recoveries.all()
    changed = replace(recovery, is_on=False)
    assert recoveries.swap(recovery, changed, now=AT)
    assert recoveries.all() == (changed,)
    assert not recoveries.swap(recovery, changed, now=AT)


def test_the_orders_of_a_guard_are_read() -> None:
    orders = AutostopPolicy.from_json(json.loads((OLD / "brakes.json").read_text(encoding="utf-8"))["orders"])
    assert orders.rules
    assert (orders.rules.idle_after_s, orders.keep.until) == (5400.0, 1795461611.6372502)


def test_a_kernels_record_is_read_to_its_last_message(tmp_path: Path) -> None:
    home = Home(tmp_path)
    shutil.copytree(OLD / "kernel", home.kernels / "old")
    (home.kernels / "old").chmod(0o700)
    (home.kernels / "old" / "record").chmod(0o700)
    folder = KernelDirectory(home, "old")
    record, requests = Record(folder.record), RequestIndex()
    with closing(record), closing(folder):
        for entry, size in record.entries():
            requests.observe(entry.seq, entry.time, entry.channel, entry.parts, size)
    assert folder.state["generation"] == 1
    assert [(asked.status, asked.state) for asked in requests.all()] == [("ok", "done")] * 3 + [("error", "done")]
