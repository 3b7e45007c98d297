"""A process that writes into the ledger and kills itself (SIGKILL); run by test_ledger.py.

Usage: dying_accountant.py FOLDER NODE UID AS_OF POINT, where POINT is ``within`` the transaction, or ``after`` it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode


def main(folder: str, node: str, uid: str, as_of: str, point: str) -> None:
    name = NodeName.parse(node)
    journal = Journal.open(Path(folder))
    ledger = Ledger(journal, endpoint="", project=name.project)
    sight = ObservedNode(name=name, uid=uid, accelerator_type="v5litepod-8", spot=False, usd_per_hour=9.6)
    if point == "within":
        with journal.writing() as database:
            database.execute("UPDATE spans SET ended_at = ?", (float(as_of),))
            os.kill(os.getpid(), signal.SIGKILL)
    ledger.record(NodesObservation(as_of=float(as_of), ready=(sight,)))
    os.kill(os.getpid(), signal.SIGKILL)


main(*sys.argv[1:])
