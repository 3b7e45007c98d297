"""Windows of budgets by the wall clock of this machine, also on the nights on which it is changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.money.spans import Window

CENTRAL_EUROPE, NEW_YORK = "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0"


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this machine."""
    with monkeypatch.context() as changes:
        changes.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("resets_at", ["00:00", "01:30", "02:30", "03:00"])
@pytest.mark.parametrize(
    ("zone", "day"),
    [
        (CENTRAL_EUROPE, datetime(2026, 3, 29, tzinfo=UTC)),
        (CENTRAL_EUROPE, datetime(2026, 10, 25, tzinfo=UTC)),
        (NEW_YORK, datetime(2026, 3, 8, tzinfo=UTC)),
        (NEW_YORK, datetime(2026, 11, 1, tzinfo=UTC)),
    ],
    indirect=["zone"],
)
@pytest.mark.usefixtures("zone")
def test_each_window_begins_where_the_last_one_ended_when_clocks_change(
    tmp_path: Path, day: datetime, resets_at: str, period: str
) -> None:
    night = day.timestamp()
    journal = Journal.open(tmp_path)
    books = SpendLedger(journal, CloudSettings(project="demo-project"))
    reset = {"resets_at": resets_at, **({"resets_on": "sunday"} if period == "week" else {})}
    books.set_budget("mine", {"amount": 20, "unit": "usd", "period": period, **reset}, now=night)
    seen = list[Window]()
    for minutes in range(-24 * 60, 36 * 60, 10):
        ((_, usage),) = books.account(night + minutes * 60.0).usages()
        window = usage.window
        assert window.ends_at is not None
        assert window.starts_at <= night + minutes * 60.0 < window.ends_at
        if window not in seen[-1:]:
            assert not seen or seen[-1].ends_at == window.starts_at
            seen.append(window)
    begin = [time.strftime("%H:%M", time.localtime(window.starts_at)) for window in seen]
    assert resets_at == "02:30" or set(begin) == {resets_at}, "one time may be skipped"
    journal.close()
