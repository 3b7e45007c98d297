"""What was billed, asked of BigQuery."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE
from jupyter_tpu.cloud.services.billing_export import read_billed
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import ApiDisabled, CloudRefused, CloudUnavailable, PermissionDenied, TpuError
from jupyter_tpu.money.billed import ExportTable

TABLE = ExportTable.parse("demo-project.billing.gcp_billing_export_v1_01E5D0_7B0000_00DE30")
SETTINGS = CloudSettings(project="demo-project", endpoint="127.0.0.1:1")
DAY_S = 24 * 3600
NODES = {"v5e": ("us-central1-a", "v5litepod-8", {}), "v2": ("europe-west4-a", "v2-8", {"spot": True})}


async def read(emulator: Any, table: ExportTable = TABLE) -> dict[str, Any]:
    return await read_billed(emulator.settings, table, {ADDRESS_VARIABLE: emulator.rest})


def live(emulator: Any, days: float) -> None:
    """Nodes that are READY for some days, after which time stands still."""
    for node_id, (zone, kind, scheduling) in NODES.items():
        body = {"acceleratorType": kind, "runtimeVersion": "tpu-ubuntu2204-base", "schedulingConfig": scheduling}
        request = urllib.request.Request(
            f"{emulator.rest}/v2/projects/demo-project/locations/{zone}/nodes?nodeId={node_id}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
            pass
    emulator.control.pause()
    emulator.control.advance(days * DAY_S)


async def test_what_was_billed_is_what_the_ledger_says(emulator: Any) -> None:
    live(emulator, days=2.5)
    ledger = emulator.control.ledger()
    assert len(ledger["nodes"]) == 2

    shown = await read(emulator)

    assert shown["last_30_days"]["cost"] == pytest.approx(ledger["total_usd"], abs=1e-9)
    assert shown["last_30_days"]["net"] == shown["last_30_days"]["cost"]
    assert {(row["service"], row["sku"]) for row in shown["days"]} == {
        ("Compute Engine", "TpuV5e running in Americas"),
        ("Cloud TPU", "Preemptible TPU-v2 Accelerator Europe"),
    }
    assert len({row["day"] for row in shown["days"]}) in (3, 4)
    assert shown["currency"] == "USD"
    assert "lags" in shown["note"]


async def test_credits_are_named_and_taken_off(emulator: Any) -> None:
    emulator.control.set_project(promotional_credit_usd=50)
    live(emulator, days=2)

    spent = (await read(emulator))["last_30_days"]

    (credit,) = spent["by_credit"]
    assert (credit["type"], credit["name"]) == ("PROMOTION", "Emulated promotional credit")
    assert credit["amount"] == pytest.approx(-50)
    assert spent["credits"] == pytest.approx(-50)
    assert spent["net"] == pytest.approx(emulator.control.ledger()["total_usd"] - 50)


@pytest.mark.parametrize(
    ("denied", "hint"),
    [
        ("bigquery.jobs.create", "roles/bigquery.jobUser"),
        ("bigquery.tables.getData", "roles/bigquery.dataViewer on the dataset demo-project.billing"),
    ],
)
async def test_a_missing_permission_is_named_by_its_role(emulator: Any, denied: str, hint: str) -> None:
    emulator.control.set_project(denied_permissions=[denied])

    with pytest.raises(PermissionDenied) as refused:
        await read(emulator)

    assert hint in refused.value.hint
    assert "Access Denied" in refused.value.raw


async def test_a_missing_table_and_an_empty_one_are_told_apart(emulator: Any) -> None:
    with pytest.raises(CloudRefused, match=r"There is no table demo-project\.billing\.other in BigQuery"):
        await read(emulator, ExportTable.parse("demo-project.billing.other"))
    with pytest.raises(CloudRefused, match="has no costs for project demo-project since"):
        await read(emulator)


Answer = tuple[int, Any]


@pytest.fixture
def paper() -> Iterator[Callable[..., tuple[dict[str, str], list[tuple[str, Any]]]]]:
    """A BigQuery that gives these answers in their order; the environment that names it, and what it was asked."""
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def serve(*answers: Answer) -> tuple[dict[str, str], list[tuple[str, Any]]]:
        waiting, asked = list(answers), list[tuple[str, Any]]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append((self.path, json.loads(body) if body else None))
                status, answer = waiting.pop(0)
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return {ADDRESS_VARIABLE: f"http://127.0.0.1:{server.server_address[1]}"}, asked

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(names: str, *rows: str, **more: Any) -> Answer:
    """Columns and rows, each as words."""
    fields = [{"name": name, "type": "STRING"} for name in names.split()]
    shown = [{"f": [{"v": value} for value in row.split()]} for row in rows]
    return 200, {"jobComplete": True, "schema": {"fields": fields}, "rows": shown, **more}


COSTS = "day service sku currency cost credits exported"
TODAY = "9999-01-01 Engine TPU USD 1.5 -0.5 9999-01-01T00:00:00Z"
NO_CREDITS: Answer = (200, {"jobComplete": True, "schema": {"fields": []}})
JOB = {"jobReference": {"projectId": "demo-project", "jobId": "j/1", "location": "EU"}}


async def test_a_slow_answer_of_several_pages_is_read_to_its_end(paper: Any) -> None:
    environment, asked = paper(
        (200, {"jobComplete": False, **JOB}),
        (200, {"jobComplete": False, **JOB}),
        answer(COSTS, TODAY, pageToken="more"),
        answer(COSTS, TODAY.replace("TPU", "Disk")),
        NO_CREDITS,
    )

    shown = await read_billed(SETTINGS, TABLE, environment)

    assert [row["sku"] for row in shown["days"]] == ["TPU", "Disk"]
    assert shown["month"]["net"] == 2.0
    where = "/bigquery/v2/projects/demo-project/queries"
    rest = f"{where}/j%2F1?location=EU&timeoutMs=20000"
    assert [path for path, _ in asked] == [where, rest, rest, f"{rest}&pageToken=more", where]
    body = asked[0][1]
    assert (body["useLegacySql"], body["parameterMode"], body["maximumBytesBilled"]) == (
        False,
        "NAMED",
        str(10 * 2**30),
    )
    assert {each["name"]: each["parameterValue"]["value"] for each in body["queryParameters"]}["project"] == (
        "demo-project"
    )


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ((403, {"error": {"message": "BigQuery API has not been used in project 1 before"}}), ApiDisabled, "enabled"),
        ((400, {"error": {"message": "x", "errors": [{"reason": "bytesBilledLimitExceeded"}]}}), CloudRefused, "large"),
        ((400, {"error": {"message": "Unrecognized name: credits"}}), CloudRefused, "refused"),
        ((503, "busy"), CloudUnavailable, "internal error"),
        ((200, "<html>"), CloudUnavailable, "cannot be read|unexpected rows"),
        ((200, {"jobComplete": True}), CloudUnavailable, "cannot be read|unexpected rows"),
        (
            (200, {"jobComplete": True, "schema": {"fields": [{"name": "a"}]}, "rows": [{"f": []}]}),
            CloudUnavailable,
            "cannot be read|unexpected rows",
        ),
        (
            (200, {"jobComplete": True, "schema": {"fields": []}, "rows": 7}),
            CloudUnavailable,
            "cannot be read|unexpected rows",
        ),
        (answer("day", "2026-11-01"), CloudUnavailable, "cannot be read|unexpected rows"),
    ],
)
async def test_no_bill_is_made_of_a_refusal_or_of_nonsense(
    paper: Any, told: Answer, error: type[TpuError], words: str
) -> None:
    environment, _ = paper(told, NO_CREDITS)

    with pytest.raises(error, match=words):
        await read_billed(SETTINGS, TABLE, environment)
