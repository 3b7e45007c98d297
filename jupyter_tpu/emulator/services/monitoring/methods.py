"""Cloud Monitoring v3: time series of emulated workers and of quota, and the descriptors of their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.protos import NodePb, State
from jupyter_tpu.emulator.services.monitoring.aggregation import Series, aggregated, aggregation_of
from jupyter_tpu.emulator.services.monitoring.filter import parse_filter
from jupyter_tpu.emulator.services.monitoring.metrics import TPU_WORKER, MetricType, quota_metrics, worker_metrics
from jupyter_tpu.emulator.services.monitoring.samples import Samples
from jupyter_tpu.emulator.services.quota.limits import SERVICE, EngineLimits, metric_of, places
from jupyter_tpu.emulator.services.requests.calls import GoogleService, Method, ServiceCall, page
from jupyter_tpu.emulator.services.requests.errors import invalid_argument, missing
from jupyter_tpu.emulator.services.requests.project import check_project
from jupyter_tpu.emulator.store.documents import moment_of, timestamp

_UNNAMED = r"(?:folders|organizations|workspaces|projects)/[^/]+/(?=services(?:/|$))"
_DESCRIPTORS = "v3/projects/{project}/metricDescriptors"


def monitoring_service(cloud: Cloud, samples: Samples) -> GoogleService:
    """Return the service with its methods."""
    methods = Monitoring(cloud, samples).methods()
    return GoogleService(name="monitoring", owns=r"v3/.*", methods=tuple(methods), unnamed=_UNNAMED)


class Monitoring:
    """Read-only: clients cannot write time series."""

    def __init__(self, cloud: Cloud, samples: Samples) -> None:
        self._cloud = cloud
        self._samples = samples
        self._limits = EngineLimits(cloud)

    def methods(self) -> list[Method]:
        """Return the methods."""
        see = "monitoring.metricDescriptors.get"
        return [
            Method(
                verb="GET",
                path="v3/projects/{project}/timeSeries",
                answer=self.time_series,
                permission="monitoring.timeSeries.list",
            ),
            Method(verb="GET", path=_DESCRIPTORS, answer=self.descriptors, permission=see),
            Method(verb="GET", path=_DESCRIPTORS + "/{metric...}", answer=self.descriptor, permission=see),
        ]

    def descriptors(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``metricDescriptors.list``."""
        project = check_project(self._cloud, call, "monitoring.metricDescriptors.list")
        text = call.query.get("filter", "")
        holds = parse_filter(text) if text else lambda _: True
        found = [each for each in _all_metrics() if holds(_as_series(each))]
        return page(call, "metricDescriptors", [each.to_json(project) for each in found])

    def descriptor(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``metricDescriptors.get``."""
        project = check_project(self._cloud, call, "monitoring.metricDescriptors.get")
        for each in _all_metrics():
            if each.type == call.parts["metric"]:
                return each.to_json(project)
        raise missing(f"projects/{project}/metricDescriptors/{call.parts['metric']}")

    @documented(
        "monitoring-interval",
        "A read includes the end of its interval and excludes its start; points come newest first.",
        source="Cloud Monitoring API v3, TimeInterval and TimeSeries.points",
    )
    async def time_series(self, call: ServiceCall) -> Mapping[str, Any]:
        """Answer ``timeSeries.list``, from samples taken for it."""
        check_project(self._cloud, call, "monitoring.timeSeries.list")
        is_short = call.word("view", "FULL", "HEADERS") == "HEADERS"
        _refuse_order(call)
        holds = parse_filter(_required(call, "filter"))
        start, end = _interval(call)
        how = aggregation_of(call)
        # a request sees the present, not what was true ten seconds ago
        await self._samples.refresh()
        found = [_within(each, start, end) for each in self._all_series() if holds(_parts(each))]
        # series without points in the interval do not exist for a reader
        shown = aggregated((each for each in found if each.points), how, end)
        return page(
            call,
            "timeSeries",
            sorted(shown, key=_key_of),
            key=_key_of,
            show=lambda series: _rendered(series, is_short),
        )

    def _all_series(self) -> Iterator[Series]:
        for node in self._cloud.store.nodes():
            if node.state == State.READY:
                yield from self._of_node(node)
        yield from self._of_quotas()

    def _of_node(self, node: NodePb) -> Iterator[Series]:
        for worker_id in range(len(node.network_endpoints)):
            samples = self._samples.of(node, worker_id)
            for metric in worker_metrics():
                points: dict[str, list[tuple[float, float]]] = {}
                for sample in samples:
                    # one series per chip: the sample has a value for each
                    for label, value in (metric.values(sample) if metric.values else {}).items():
                        points.setdefault(label, []).append((sample.moment, value))
                for label, found in points.items():
                    labels = {metric.labels[0]: label} if label and metric.labels else {}
                    resource = self._worker(metric.resource, node, worker_id)
                    yield _series(metric, labels, resource, found)

    @assumed(
        "monitoring-worker-labels",
        "tpu_worker has project_id, zone, node_id and worker_id; GceTpuWorker has resource_container, location and a "
        "worker_id that is the node's number plus the worker's (the real one names no node).",
    )
    def _worker(self, kind: str, node: NodePb, worker_id: int) -> Mapping[str, Any]:
        _, _, _, zone, _, node_id = node.name.split("/")
        project = self._cloud.project
        if kind == TPU_WORKER:
            labels = {"project_id": project, "zone": zone, "node_id": node_id, "worker_id": str(worker_id)}
        else:
            labels = {"resource_container": project, "location": zone, "worker_id": str(node.id + worker_id)}
        return {"type": kind, "labels": labels}

    @assumed(
        "monitoring-quota-now",
        "Quota has one point, of now; limits are shown in every zone and region, usage where there is some.",
    )
    def _of_quotas(self) -> Iterator[Series]:
        usage, limit = quota_metrics()
        now = self._cloud.clock.now()
        for (quota, place), used in sorted(self._limits.used().items(), key=str):
            # usage exists where there is some, limits exist everywhere (behaviour `monitoring-quota-now`)
            if used:
                yield _series(usage, {"quota_metric": metric_of(quota)}, self._quota(usage, place), [(now, used)])
        for limits in self._limits.all():
            for place in places(limits.quota.scope):
                labels = {"quota_metric": metric_of(limits.quota), "limit_name": str(limits.quota)}
                value = limits.others.get(place, limits.default)
                yield _series(limit, labels, self._quota(limit, place), [(now, value)])

    def _quota(self, metric: MetricType, place: str) -> Mapping[str, Any]:
        labels = {"project_id": self._cloud.project, "service": SERVICE, "location": place}
        return {"type": metric.resource, "labels": labels}


def _all_metrics() -> list[MetricType]:
    return sorted((*worker_metrics(), *quota_metrics()), key=lambda metric: metric.type)


def _as_series(metric: MetricType) -> Mapping[str, Any]:
    return {"metric": {"type": metric.type, "labels": {}}, "resource": {"type": metric.resource, "labels": {}}}


def _series(
    metric: MetricType, labels: Mapping[str, str], resource: Mapping[str, Any], points: list[tuple[float, float]]
) -> Series:
    return Series(
        metric={"type": metric.type, "labels": labels},
        resource=resource,
        value=metric.value,
        unit=metric.unit,
        points=tuple(points),
    )


def _parts(series: Series) -> Mapping[str, Any]:
    return {"metric": series.metric, "resource": series.resource}


def _within(series: Series, start: float, end: float) -> Series:
    points = tuple(point for point in series.points if start < point[0] <= end)
    return Series(metric=series.metric, resource=series.resource, value=series.value, unit=series.unit, points=points)


def _rendered(series: Series, is_short: bool) -> dict[str, Any]:
    shown = {
        "metric": series.metric,
        "resource": series.resource,
        "metricKind": "GAUGE",
        "valueType": series.value,
        "unit": series.unit,
    }
    # newest first, as Cloud Monitoring lists them
    points = [] if is_short else [_point(series, moment, value) for moment, value in sorted(series.points)[::-1]]
    return {**shown, **({"points": points} if points else {})}


def _point(series: Series, moment: float, value: float) -> dict[str, Any]:
    when = timestamp(moment)
    typed = {"doubleValue": float(value)} if series.value == "DOUBLE" else {"int64Value": str(int(value))}
    return {"interval": {"startTime": when, "endTime": when}, "value": typed}


def _key_of(series: Series) -> str:
    return series.key


def _required(call: ServiceCall, name: str) -> str:
    if not call.query.get(name):
        raise invalid_argument(f"Field {name} must be set.", name)
    return call.query[name]


@documented(
    "monitoring-order", "An orderBy must be left blank.", source="Cloud Monitoring API v3, projects.timeSeries.list"
)
def _refuse_order(call: ServiceCall) -> None:
    if call.query.get("orderBy"):
        raise invalid_argument("Field orderBy is not supported: it must be left blank.", "orderBy")


@assumed("monitoring-interval-start", "An interval without a start is refused, like one that ends before it starts.")
def _interval(call: ServiceCall) -> tuple[float, float]:
    names = ("interval.startTime", "interval.endTime")
    texts = [_required(call, name) for name in names]
    try:
        start, end = (moment_of(text) for text in texts)
    except (ValueError, OverflowError) as error:
        raise invalid_argument(f"Field interval is not a time: {str(error)[:80]}", "interval") from error
    # equal bounds are allowed: such an interval is one moment
    if start > end:
        raise invalid_argument("Field interval.startTime must not be later than interval.endTime.", "interval")
    return start, end
