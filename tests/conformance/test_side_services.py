"""Google's other services through Google's own clients, their answers held against Google's documents."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
from discovery_documents import _methods_of, complaints, document
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import billing_v1, cloudquotas_v1, cloudquotas_v1beta
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from jupyter_tpu.cloud.services.billing_export import query_body
from jupyter_tpu.money.billed import COSTS, CREDITS, ExportTable

SERVICE = "tpu.googleapis.com"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
SPOT = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"
NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
ACCOUNT = "billingAccounts/01E5D0-7B0000-00DE30"
BILLING_INFO = "/v1/projects/demo-project/billingInfo"
COMPUTE_ENGINE, CLOUD_TPU = "services/6F81-5844-456A", "services/E000-3F24-B8AA"
NAMED_OTHERWISE = {"cloudbilling.getCard"}
"""``GET v1/card``: no resource, whose name would be part of the method's."""
DOCUMENTS = ("cloudbilling.v1", "serviceusage.v1", "serviceusage.v1beta1")

METRICS = f"/v1beta1/projects/demo-project/services/{SERVICE}/consumerQuotaMetrics"

Discovered = Callable[[str, str], Any]


@pytest.fixture
def discovered(emulator: Any) -> Iterator[Discovered]:
    """googleapiclient's services, built from the documents that it ships."""
    opened = []

    def build(name: str, version: str) -> Any:
        path = {"compute": "/compute/v1/", "bigquery": "/bigquery/v2/"}.get(name, "/")
        options = {"api_endpoint": emulator.rest + path}
        opened.append(
            discovery.build(
                name, version, credentials=AnonymousCredentials(), client_options=options, static_discovery=True
            )
        )
        return opened[-1]

    yield build
    for service in opened:
        service.close()


def quotas_client(emulator: Any, package: Any = cloudquotas_v1) -> Any:
    options = {"api_endpoint": emulator.rest}
    return package.CloudQuotasClient(transport="rest", credentials=AnonymousCredentials(), client_options=options)


def billing_client(client: Any, emulator: Any) -> Any:
    options = {"api_endpoint": emulator.rest}
    return client(transport="rest", credentials=AnonymousCredentials(), client_options=options)


def quotas_parent(emulator: Any) -> str:
    return f"projects/{emulator.project}/locations/global/services/{SERVICE}"


def limits_of(info: Any) -> dict[str, int]:
    """Limit by place, the way readers of quotaInfos work it out; "" is the place of all others."""
    found = {}
    for each in info.dimensions_infos:
        place = next(iter(each.dimensions.values()), "")
        found[place] = each.details.value
    return found


def create(tpu: Any, emulator: Any, node_id: str = "n1", zone: str = "", **fields: Any) -> Any:
    """A node that is READY."""
    parent = f"projects/{emulator.project}/locations/{zone or emulator.zone}"
    nodes = tpu.projects().locations()
    operation = nodes.nodes().create(parent=parent, nodeId=node_id, body={**NODE, **fields}).execute()
    deadline = time.monotonic() + 120
    while not operation["done"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        operation = nodes.operations().get(name=operation["name"]).execute()
    return operation["response"]


def refused(call: Any) -> HttpError:
    with pytest.raises(HttpError) as caught:
        call.execute()
    return caught.value


def checked(api: str, schema: str, answer: Any) -> Any:
    """The answer, valid by the document."""
    assert complaints(api, schema, answer) == []
    return answer


# -- Cloud Quotas, Service Usage and the engine


@pytest.mark.parametrize("package", [cloudquotas_v1, cloudquotas_v1beta], ids=["v1", "v1beta"])
def test_a_limit_is_the_same_wherever_one_looks(package: Any, emulator: Any, discovered: Discovered) -> None:
    emulator.control.set_quota(SERVING, emulator.zone, 4)

    info = quotas_client(emulator, package).get_quota_info(name=f"{quotas_parent(emulator)}/quotaInfos/{SERVING}")
    limits = limits_of(info)
    metrics = discovered("serviceusage", "v1beta1").services().consumerQuotaMetrics()
    name = f"projects/{emulator.project}/services/{SERVICE}/consumerQuotaMetrics/{info.metric.replace('/', '%2F')}"
    metric = checked("serviceusage.v1beta1", "ConsumerQuotaMetric", metrics.get(name=name).execute())
    by_zone = next(each for each in metric["consumerQuotaLimits"] if each["unit"] == "1/{project}/{zone}")
    buckets = {each.get("dimensions", {}).get("zone", ""): each for each in by_zone["quotaBuckets"]}
    refusal = refused(
        discovered("tpu", "v2").projects().locations().nodes().create(parent=emulator.parent, nodeId="n", body=NODE)
    )

    assert limits[emulator.zone] == 4
    assert limits[""] > 4
    assert buckets[emulator.zone]["effectiveLimit"] == "4"
    assert buckets[""]["effectiveLimit"] == buckets[""]["defaultLimit"] == str(limits[""])
    assert refusal.reason == f"Quota limit '{SERVING}' has been exceeded. Limit: 4 in zone {emulator.zone}."


def test_a_limit_of_zero_is_left_out_and_none_is_minus_one(emulator: Any, discovered: Discovered) -> None:
    emulator.control.set_quota(SPOT, "us-east5-a", 0)
    emulator.control.set_quota(SPOT, "us-east1-d", None)

    info = quotas_client(emulator).get_quota_info(name=f"{quotas_parent(emulator)}/quotaInfos/{SPOT}")
    zones = [dict(each.dimensions).get("zone") for each in info.dimensions_infos]
    parent = f"projects/{emulator.project}/services/{SERVICE}"
    answer = discovered("serviceusage", "v1beta1").services().consumerQuotaMetrics().list(parent=parent).execute()
    checked("serviceusage.v1beta1", "ListConsumerQuotaMetricsResponse", answer)
    (metric,) = (each for each in answer["metrics"] if each["metric"] == f"{SERVICE}/tpu-v6e-preemptible")
    by_zone = metric["consumerQuotaLimits"][0]["quotaBuckets"]
    buckets = {each.get("dimensions", {}).get("zone"): each for each in by_zone}

    assert limits_of(info)["us-east5-a"] == 0
    assert limits_of(info)["us-east1-d"] == -1
    assert zones[-1] is None, "the default comes last"
    assert "us-east5-a" not in info.dimensions_infos[-1].applicable_locations
    assert "effectiveLimit" not in buckets["us-east5-a"]
    assert buckets["us-east1-d"]["effectiveLimit"] == "-1"


def test_quotas_come_page_by_page(emulator: Any) -> None:
    client = quotas_client(emulator)
    request = cloudquotas_v1.ListQuotaInfosRequest(parent=quotas_parent(emulator), page_size=5)

    pages = [[info.quota_id for info in page.quota_infos] for page in client.list_quota_infos(request).pages]
    ids = [quota_id for page in pages for quota_id in page]

    assert [len(page) for page in pages[:-1]] == [5] * (len(pages) - 1)
    assert len(ids) == len(set(ids)) == 36
    assert all(re.fullmatch(r"TPU\w+PerProjectPer(Zone|Region)ForTPUAPI", quota_id) for quota_id in ids)
    with pytest.raises(exceptions.BadRequest):
        list(client.list_quota_infos({"parent": quotas_parent(emulator), "page_token": "forged"}))


def test_an_api_that_is_turned_off_refuses_until_it_is_on(emulator: Any, discovered: Discovered) -> None:
    services = discovered("serviceusage", "v1").services()
    name = f"projects/{emulator.project}/services/{SERVICE}"
    nodes = discovered("tpu", "v2").projects().locations().nodes()

    off = checked("serviceusage.v1", "Operation", services.disable(name=name, body={}).execute())
    refusal = refused(nodes.list(parent=emulator.parent))
    state_off = checked("serviceusage.v1", "GoogleApiServiceusageV1Service", services.get(name=name).execute())
    enabled = services.list(parent=f"projects/{emulator.project}", filter="state:ENABLED").execute()["services"]
    services.enable(name=name, body={}).execute()

    assert (off["done"], state_off["state"], refusal.status_code) == (True, "DISABLED", 403)
    assert "it is disabled" in refusal.reason
    assert name not in [each["name"] for each in enabled]
    assert nodes.list(parent=emulator.parent).execute() == {}
    emulator.control.set_project(api_enabled=False)
    assert services.get(name=name).execute()["state"] == "DISABLED"


# -- Billing


def test_the_catalogue_is_read_by_googles_client_and_the_known_expressions(emulator: Any) -> None:
    client = billing_client(billing_v1.CloudCatalogClient, emulator)
    pages = list(client.list_skus(request={"parent": COMPUTE_ENGINE, "page_size": 20}).pages)
    skus = [sku for page in pages for sku in page.skus if "us-east5" in sku.service_regions]

    def prices(expression: str, usage_type: str) -> list[float]:
        found = [sku for sku in skus if re.match(expression, sku.description) and sku.category.usage_type == usage_type]
        rates = [sku.pricing_info[-1].pricing_expression.tiered_rates[0].unit_price for sku in found]
        return [rate.units + rate.nanos / 1e9 for rate in rates]

    assert len(pages) > 2
    assert prices(r"^TpuV6e running in ", "OnDemand") == pytest.approx([2.70])
    assert prices(r"^TpuV6e attached to Spot Preemptible VMs", "Preemptible") == pytest.approx([1.4033])
    assert prices(r"^DWS Defined Duration V6e running in ", "OnDemand") == pytest.approx([1.35])
    for decoy in (r"^Capacity Optimized TpuV6e", r"^Reserved V6e TPU in .* Calendar Mode"):
        assert prices(decoy, "OnDemand")
    assert prices(r"^Commitment v1: TpuV6e", "Commit1Yr") == pytest.approx([1.89])
    assert {sku.category.resource_group for sku in skus} == {"TPU"}
    legacy = list(client.list_skus(parent=CLOUD_TPU))
    assert {re.sub(r".*TPU-(v\d).*", r"\1", sku.description) for sku in legacy} == {"v2", "v3", "v4"}


def test_the_catalogue_and_the_ledger_have_one_price(emulator: Any, discovered: Discovered) -> None:
    node = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}
    create(discovered("tpu", "v2"), emulator, zone="us-east5-a", **node)
    (bill,) = emulator.control.ledger()["nodes"]
    catalogue = discovered("cloudbilling", "v1").services()
    answer = checked("cloudbilling.v1", "ListSkusResponse", catalogue.skus().list(parent=COMPUTE_ENGINE).execute())
    (sku,) = (each for each in answer["skus"] if each["description"] == "TpuV6e running in Columbus")
    rate = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"][0]["unitPrice"]

    assert (int(rate["units"]) + rate["nanos"] / 1e9) * 4 == pytest.approx(bill["usd_per_hour"])
    listed = checked("cloudbilling.v1", "ListServicesResponse", catalogue.list().execute())
    assert [each["name"] for each in listed["services"]] == [COMPUTE_ENGINE, CLOUD_TPU]


def test_a_project_is_billed_until_its_account_is_taken_away(emulator: Any) -> None:
    client = billing_client(billing_v1.CloudBillingClient, emulator)
    name = f"projects/{emulator.project}"

    (account,) = client.list_billing_accounts()
    before = client.get_project_billing_info(name=name)
    after = client.update_project_billing_info(name=name, project_billing_info={"billing_account_name": ""})

    assert (account.name, account.open, account.currency_code) == (ACCOUNT, True, "USD")
    assert (before.billing_account_name, before.billing_enabled) == (ACCOUNT, True)
    assert (after.billing_account_name, after.billing_enabled) == ("", False)
    assert list(client.list_project_billing_info(name=ACCOUNT)) == []
    with pytest.raises(exceptions.Forbidden):
        client.get_billing_account(name="billingAccounts/000000-000000-000000")


# -- Compute Engine


def test_the_project_is_shown_as_gcloud_reads_it_before_ssh(emulator: Any, discovered: Discovered) -> None:
    projects = discovered("compute", "v1").projects()
    project = projects.get(project=emulator.project).execute()

    assert set(project) <= set(document("compute.v1")["schemas"]["Project"]["properties"])
    assert base64.urlsafe_b64decode(project["commonInstanceMetadata"]["fingerprint"])
    assert refused(projects.get(project="another-project")).status_code == 404
    assert refused(projects.setCommonInstanceMetadata(project=emulator.project, body={})).status_code == 501


# -- all of them


@pytest.mark.parametrize("api", DOCUMENTS)
async def test_every_method_of_a_document_is_served_or_unimplemented_by_name(api: str, emulator: Any) -> None:
    wrong = {}
    async with aiohttp.ClientSession() as session:
        for method in _methods_of(document(api)):
            path = re.sub(r"\{v\w+Id\}", "projects", method["flatPath"], count=1)
            path = re.sub(r"\{projectsId\}|\{v\w+Id1\}", emulator.project, path)
            url = f"{emulator.rest}/{re.sub(r'{.+?}', 'x', path)}"
            async with session.request(method["httpMethod"], url, json={}) as answer:
                error = (await answer.json()).get("error", {})
            message = error.get("message", "")
            is_named = message == f"The emulator does not implement {method['id']}."
            if not (is_named if answer.status == 501 else answer.status < 500):
                wrong[method["id"]] = message

    assert set(wrong) <= NAMED_OTHERWISE, wrong


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "words"),
    [
        ("GET", "/v1/projects/other/locations/global/services/tpu.googleapis.com/quotaInfos", None, 403, "denied"),
        ("GET", "/v1/projects/demo-project/locations/us/services/x/quotaInfos", None, 400, "must be global"),
        ("GET", "/v1/projects/demo-project/locations/global/services/tpu.googleapis.com/quotaInfos/X", None, 404, "X"),
        ("GET", "/v1/projects/demo-project/locations/global/services/tpu.googleapis.com/quotaInfos?pageSize=-1",
         None, 400, "negative"),
        ("GET", "/v1/services/6F81-5844-456A/skus?pageSize=many", None, 400, "TYPE_INT32"),
        ("GET", "/v1/services/nothing/skus", None, 404, "not found"),
        ("PUT", BILLING_INFO, {"billingAccountName": "billingAccounts/1"}, 403, "denied"),
        ("PUT", BILLING_INFO, {"colour": "red"}, 400, 'Unknown name "colour" at \'project_billing_info\''),
        ("PUT", BILLING_INFO, {"billingAccountName": 5}, 400, "_info.billing_account_name' (TYPE_STRING)"),
        ("POST", "/v1/projects/demo-project/locations/global/quotaPreferences", {}, 501, "quotaPreferences.create"),
        ("GET", f"{METRICS}?view=BOGUS", None, 400, "'view' (TYPE_ENUM)"),
        ("POST", "/v1/projects/demo-project/services/unknown.googleapis.com:enable", {}, 404, "not found"),
        ("GET", "/v1/projects/demo-project/services?filter=colour:red", None, 400, "not supported"),
        ("DELETE", "/compute/v1/projects/demo-project/zones/z/instances/i", None, 501, "compute.instances.delete"),
    ],
)  # fmt: skip
async def test_errors_come_in_googles_envelope(
    verb: str, path: str, body: Any, status: int, words: str, emulator: Any
) -> None:
    async with aiohttp.ClientSession() as session, session.request(verb, emulator.rest + path, json=body) as answer:
        error = (await answer.json())["error"]

    assert (answer.status, error["code"]) == (status, status)
    assert words in error["message"]
    assert error.get("status") or error["errors"][0]["reason"]


def test_a_denied_permission_is_denied_here_too(emulator: Any, discovered: Discovered) -> None:
    accounts = discovered("cloudbilling", "v1").billingAccounts()
    emulator.control.set_project(denied_permissions=["billing.accounts.list", "compute.projects.get"])

    denied = refused(accounts.list())
    project = refused(discovered("compute", "v1").projects().get(project=emulator.project))

    assert (denied.status_code, "billing.accounts.list" in denied.reason) == (403, True)
    assert project.reason == f"Required 'compute.projects.get' permission for 'projects/{emulator.project}'"
    assert accounts.get(name=ACCOUNT).execute()["name"] == ACCOUNT


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/v1/{ACCOUNT}", {}, 401),
        (f"/v1/{ACCOUNT}", {"Authorization": "Basic me"}, 401),
        (f"/v1/{ACCOUNT}", {"Authorization": "Bearer any"}, 200),
        (f"/v1/{COMPUTE_ENGINE}/skus?key=any", {}, 200),
    ],
)
async def test_a_project_that_asks_for_tokens_gets_them(
    path: str, headers: dict[str, str], status: int, emulator: Any
) -> None:
    emulator.control.set_project(asks_for_token=True)

    async with aiohttp.ClientSession() as session, session.get(emulator.rest + path, headers=headers) as answer:
        error = (await answer.json()).get("error", {})

    assert answer.status == status
    assert error.get("status", "") == ("UNAUTHENTICATED" if status == 401 else "")


def test_a_reset_forgets_what_was_asked_of_these_services(emulator: Any, discovered: Discovered) -> None:
    billing = discovered("cloudbilling", "v1").projects()
    own = f"projects/{emulator.project}"
    billing.updateBillingInfo(name=own, body={"billingAccountName": ""}).execute()

    emulator.control.reset()

    assert billing.getBillingInfo(name=own).execute()["billingAccountName"] == ACCOUNT


# -- BigQuery


def test_the_questions_to_the_billing_export_and_their_answers_fit_googles_document(
    emulator: Any, discovered: Discovered
) -> None:
    table = ExportTable.parse("demo-project.billing.gcp_billing_export_v1_01E5D0_7B0000_00DE30")
    jobs = discovered("bigquery", "v2").jobs()
    create(discovered("tpu", "v2"), emulator)
    for query in (COSTS, CREDITS):
        body = query_body(table.sql(query), {"project": emulator.project, "since": "2026-01-01"})
        assert complaints("bigquery.v2", "QueryRequest", body) == []
        answer = checked("bigquery.v2", "QueryResponse", jobs.query(projectId=emulator.project, body=body).execute())
        assert answer["jobComplete"]

    other = refused(jobs.query(projectId=emulator.project, body={**body, "query": "SELECT 1"}))
    assert (other.status_code, "understands only" in other.reason) == (400, True)
