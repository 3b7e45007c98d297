"""The limits of quotas, read from Cloud Quotas and from Service Usage."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE
from jupyter_tpu.cloud.services.quotas import entries_of_consumer_metrics, entries_of_quota_infos, read_limits
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import (
    ApiDisabled,
    CloudRefused,
    CloudUnavailable,
    CredentialsMissing,
    PermissionDenied,
    RateExceeded,
    TpuError,
)
from jupyter_tpu.money.quota import QuotaLimits
from jupyter_tpu.money.quota_ids import quotas_by_id

SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
SPOT_V6E = "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI"
SETTINGS = CloudSettings(project="demo-project", endpoint="127.0.0.1:1")
DISABLED = (
    "Cloud Quotas API has not been used in project 1032299714650 before or it is disabled. Enable it by visiting "
    "https://console.developers.google.com/apis/api/cloudquotas.googleapis.com/overview then retry."
)


def limit(limits: QuotaLimits, quota_id: str, place: str) -> int | None:
    return limits.values.get((quotas_by_id()[quota_id], place))


async def read(emulator: Any) -> QuotaLimits:
    return await read_limits(emulator.settings, {ADDRESS_VARIABLE: emulator.rest})


async def test_limits_are_those_that_the_cloud_applies(emulator: Any) -> None:
    emulator.control.set_project(quota_profile="new_project")
    emulator.control.set_quota(SERVING, "us-central1-a", 32)
    emulator.control.set_quota(SPOT_V6E, "us-east1", None)

    limits = await read(emulator)

    assert limits.source == "Cloud Quotas API"
    assert limit(limits, SERVING, "us-central1-a") == 32
    assert limit(limits, SERVING, "us-west4-a") == 4  # the default of all other places
    assert limit(limits, SPOT_V6E, "us-east1") == -1
    assert limit(limits, SPOT_V6E, "us-central1") == 0  # a value that is left out


@pytest.mark.parametrize("profile", ["generous", "new_project", "trc_grant"])
async def test_service_usage_tells_the_same_where_cloud_quotas_may_not_be_read(emulator: Any, profile: str) -> None:
    emulator.control.set_project(quota_profile=profile)
    emulator.control.set_quota(SERVING, "us-central1-a", 32)
    told = await read(emulator)

    emulator.control.set_project(denied_permissions=["cloudquotas.quotas.get"])
    instead = await read(emulator)

    assert instead.source == "Service Usage API"
    assert dict(instead.values) == dict(told.values)


async def test_where_neither_may_be_read_the_words_of_both_are_kept(emulator: Any) -> None:
    emulator.control.set_project(denied_permissions=["cloudquotas.quotas.get", "serviceusage.quotas.get"])

    with pytest.raises(PermissionDenied) as refused:
        await read(emulator)

    assert "roles/cloudquotas.viewer" in refused.value.hint
    assert "cloudquotas.quotas.get" in refused.value.raw
    assert "serviceusage.quotas.get" in refused.value.raw


async def test_an_emulator_whose_address_nobody_told_is_not_guessed() -> None:
    with pytest.raises(CloudUnavailable) as refused:
        await read_limits(SETTINGS, {})

    assert ADDRESS_VARIABLE in refused.value.hint


async def test_without_a_login_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))

    with pytest.raises(CredentialsMissing) as refused:
        await read_limits(CloudSettings(project="demo-project"), {})

    assert "gcloud auth application-default login" in refused.value.hint
    assert "missing.json" in refused.value.raw


async def test_a_cloud_that_is_gone_is_said_to_be_silent() -> None:
    with pytest.raises(CloudUnavailable) as refused:
        await read_limits(SETTINGS, {ADDRESS_VARIABLE: "http://127.0.0.1:9"})

    assert refused.value.raw


Answer = tuple[int, Any]


class PaperCloud:
    """Answers what the test wrote down, page by page, and keeps what it was asked."""

    def __init__(self, *, elsewhere: str = "", **pages: list[Answer]) -> None:
        self.elsewhere = elsewhere
        self.pages = pages
        self.asked: list[tuple[str, dict[str, str]]] = []

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        kind = path.rpartition("/")[2]
        self.asked.append((kind, query))
        return self.pages[kind][int(query.get("pageToken", "0"))]


@pytest.fixture
def paper() -> Iterator[Callable[[PaperCloud], dict[str, str]]]:
    """Puts a paper cloud at an address; gives the environment that names it."""
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def serve(cloud: PaperCloud) -> dict[str, str]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                status, body = cloud.answer(parts.path, query)
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if cloud.elsewhere:
                    self.send_header("Location", cloud.elsewhere)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return {ADDRESS_VARIABLE: f"http://127.0.0.1:{server.server_address[1]}"}

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def info(quota_id: str, *dimensions: dict[str, Any]) -> dict[str, Any]:
    return {"quotaId": quota_id, "dimensionsInfos": list(dimensions)}


def envelope(status: int, message: str, **error: Any) -> Answer:
    return status, {"error": {"code": status, "message": message, **error}}


async def test_every_page_is_read(paper: Any) -> None:
    first = {"details": {"value": "8"}, "dimensions": {"zone": "us-central1-a"}}
    second = {"details": {"value": "64"}, "applicableLocations": ["us-east1"]}
    cloud = PaperCloud(
        quotaInfos=[
            (200, {"quotaInfos": [info(SERVING, first)], "nextPageToken": "1"}),
            (200, {"nextPageToken": "2"}),
            (200, {"quotaInfos": [info(SPOT_V6E, second)]}),
        ]
    )

    limits = await read_limits(SETTINGS, paper(cloud))

    assert (limit(limits, SERVING, "us-central1-a"), limit(limits, SPOT_V6E, "us-east1")) == (8, 64)
    assert [query.get("pageToken", "") for _, query in cloud.asked] == ["", "1", "2"]


class BusyCloud(PaperCloud):
    """Refuses the first two requests."""

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        answer = super().answer(path, query)
        return answer if len(self.asked) > 2 else envelope(503, "Unavailable")


async def test_a_read_is_tried_again_when_the_service_is_briefly_unavailable(paper: Any) -> None:
    entry = {"details": {"value": "8"}, "dimensions": {"zone": "us-central1-a"}}
    cloud = BusyCloud(quotaInfos=[(200, {"quotaInfos": [info(SERVING, entry)]})])

    limits = await read_limits(SETTINGS, paper(cloud))

    assert limit(limits, SERVING, "us-central1-a") == 8
    assert len(cloud.asked) == 3


async def test_a_disabled_api_is_not_the_end(paper: Any) -> None:
    bucket = {"effectiveLimit": "64", "dimensions": {"region": "us-east1"}}
    metric = {
        "metric": "tpu.googleapis.com/tpu-v6e-preemptible",
        "consumerQuotaLimits": [{"unit": "1/{project}/{region}", "quotaBuckets": [bucket]}],
    }
    cloud = PaperCloud(quotaInfos=[envelope(403, DISABLED)], consumerQuotaMetrics=[(200, {"metrics": [metric]})])

    limits = await read_limits(SETTINGS, paper(cloud))

    assert (limits.source, limit(limits, SPOT_V6E, "us-east1")) == ("Service Usage API", 64)


async def test_both_apis_disabled_is_said_with_the_command_that_enables_one(paper: Any) -> None:
    cloud = PaperCloud(quotaInfos=[envelope(403, DISABLED)], consumerQuotaMetrics=[envelope(403, DISABLED)])

    with pytest.raises(ApiDisabled) as refused:
        await read_limits(SETTINGS, paper(cloud))

    assert "gcloud services enable cloudquotas.googleapis.com --project=demo-project" in refused.value.hint
    assert DISABLED in refused.value.raw


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (envelope(401, "Request had invalid authentication credentials."), CredentialsMissing),
        (envelope(429, "Quota exceeded for quota metric 'Read requests'"), RateExceeded),
        (envelope(400, "Invalid project"), CloudRefused),
        (envelope(503, "Unavailable"), CloudUnavailable),
        ((200, "<html>Sign in to this network</html>"), CloudUnavailable),
        ((200, [1]), CloudUnavailable),
        ((200, {"quotaInfos": 3}), CloudUnavailable),
        ((200, {"quotaInfos": [info(SERVING, {"details": {"value": "many"}, "dimensions": {"zone": "z"}})]}), None),
        ((302, "elsewhere"), CloudRefused),
    ],
)
async def test_other_answers_become_errors_in_our_words(
    paper: Any, answer: Answer, error: type[TpuError] | None
) -> None:
    with pytest.raises(error or CloudUnavailable) as refused:
        await read_limits(SETTINGS, paper(PaperCloud(quotaInfos=[answer])))

    assert refused.value.message
    assert refused.value.hint
    assert refused.value.raw


async def test_nobody_is_asked_whom_a_redirect_names(paper: Any) -> None:
    other = PaperCloud(quotaInfos=[(200, {})])
    elsewhere = f"{paper(other)[ADDRESS_VARIABLE]}/quotaInfos"

    with pytest.raises(CloudRefused):
        await read_limits(SETTINGS, paper(PaperCloud(elsewhere=elsewhere, quotaInfos=[(302, "elsewhere")])))

    assert other.asked == []


def test_a_place_of_its_own_overrules_the_default_in_any_order() -> None:
    own = {"dimensions": {"zone": "us-central1-a"}, "details": {}}
    default = {"details": {"value": "4"}, "applicableLocations": ["us-central1-a", "us-west4-a"]}
    for dimensions in ([own, default], [default, own]):
        found = dict(entries_of_quota_infos({"quotaInfos": [info(SERVING, *dimensions)]}))
        assert {place: value for (_, place), value in found.items()} == {"us-central1-a": 0, "us-west4-a": 4}


def test_quotas_of_other_things_are_passed_over() -> None:
    rate = {"quotaId": "CreateNodeRequestsPerMinutePerProject", "dimensionsInfos": [{"details": {"value": "91"}}]}
    metric = {"metric": "tpu.googleapis.com/requests", "consumerQuotaLimits": [{"unit": "1/min/{project}"}]}

    assert list(entries_of_quota_infos({"quotaInfos": [rate]})) == []
    assert list(entries_of_consumer_metrics({"metrics": [metric]})) == []
