"""The metrics of Cloud Monitoring that the emulator has values for: names, kinds, units and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.services.monitoring.samples import Sample

TPU, QUOTA = "tpu.googleapis.com", "serviceruntime.googleapis.com/quota"
TPU_WORKER, GCE_TPU_WORKER, CONSUMER_QUOTA = "tpu_worker", "tpu.googleapis.com/GceTpuWorker", "consumer_quota"
EMULATED = "Emulated: measured on the processes of an emulated worker, not on a TPU."

Values = Callable[[Sample], Mapping[str, float]]
"""Values of a sample by the value of the metric's own label, which is empty for a metric without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricType:
    """One metric.

    Attributes:
        type: its name.
        resource: the type of monitored resource that has it.
        value: ``DOUBLE`` or ``INT64``.
        unit: in UCUM, such as ``By``.
        labels: what tells its series apart in addition to the resource.
        values: computes them from a sample of a worker; None: it is not one of workers.
    """

    type: str
    title: str
    resource: str
    value: str
    unit: str
    labels: tuple[str, ...] = ()
    values: Values | None = None

    def to_json(self, project: str) -> dict[str, Any]:
        """Return it as a ``MetricDescriptor``."""
        return {
            "name": f"projects/{project}/metricDescriptors/{self.type}",
            "type": self.type,
            "metricKind": "GAUGE",
            "valueType": self.value,
            "unit": self.unit,
            "displayName": self.title,
            "description": EMULATED if self.values else "Quota of the emulated project.",
            "labels": [{"key": label} for label in self.labels],
            "monitoredResourceTypes": [self.resource],
            "launchStage": "GA",
            # the real service's period; samples here come faster
            "metadata": {"samplePeriod": "60s", "ingestDelay": "0s"},
        }


def _alone(value: Callable[[Sample], float | None]) -> Values:
    def values(sample: Sample) -> Mapping[str, float]:
        found = value(sample)
        return {} if found is None else {"": found}

    return values


@documented(
    "monitoring-metrics",
    "Workers have cpu/utilization (%), memory/usage (By), tpu/tensorcore/idle_duration (s) and tpu/mxu/utilization (%) "
    "on tpu_worker, and accelerator/duty_cycle, accelerator/tensorcore_utilization (%), accelerator/memory_used, "
    "accelerator/memory_total (By) and instance/uptime_total (s) on tpu.googleapis.com/GceTpuWorker.",
    source="cloud.google.com/tpu/docs/troubleshooting/tpu-vm-monitoring and tpu-node-monitoring",
)
@recorded(
    "monitoring-accelerator-labels",
    "The label accelerator_id distinguishes series of accelerator metrics.",
    source="dashboards and scripts of public repositories",
)
@assumed(
    "monitoring-mxu",
    "How busy MXU and TensorCores are cannot be known; the duty cycle stands for it. Network bytes of a worker and the "
    "use of HBM bandwidth cannot be measured, so these metrics have no series.",
)
def worker_metrics() -> tuple[MetricType, ...]:
    """Return the metrics of workers."""
    return (
        MetricType(
            type=f"{TPU}/cpu/utilization",
            title="CPU utilization",
            resource=TPU_WORKER,
            value="DOUBLE",
            unit="%",
            values=_alone(lambda sample: sample.cpu_percent),
        ),
        MetricType(
            type=f"{TPU}/memory/usage",
            title="Memory usage",
            resource=TPU_WORKER,
            value="INT64",
            unit="By",
            values=_alone(lambda sample: sample.memory_bytes),
        ),
        MetricType(
            type=f"{TPU}/tpu/mxu/utilization",
            title="MXU utilization",
            resource=TPU_WORKER,
            value="DOUBLE",
            unit="%",
            labels=("core",),
            values=lambda sample: sample.duty_percent,
        ),
        MetricType(
            type=f"{TPU}/tpu/tensorcore/idle_duration",
            title="TensorCore idle duration",
            resource=TPU_WORKER,
            value="INT64",
            unit="s",
            labels=("core",),
            values=lambda sample: sample.idle_s,
        ),
        *_accelerator_metrics(),
        MetricType(
            type=f"{TPU}/instance/uptime_total",
            title="Uptime",
            resource=GCE_TPU_WORKER,
            value="INT64",
            unit="s",
            values=_alone(lambda sample: sample.uptime_s),
        ),
    )


def _accelerator_metrics() -> tuple[MetricType, ...]:
    rows: tuple[tuple[str, str, str, str, Values], ...] = (
        ("duty_cycle", "Accelerator duty cycle", "DOUBLE", "%", lambda sample: sample.duty_percent),
        ("tensorcore_utilization", "TensorCore utilization", "DOUBLE", "%", lambda sample: sample.duty_percent),
        ("memory_used", "Accelerator memory used", "INT64", "By", lambda sample: sample.hbm_used_bytes),
        ("memory_total", "Accelerator memory total", "INT64", "By", lambda sample: sample.hbm_total_bytes),
    )
    return tuple(
        MetricType(
            type=f"{TPU}/accelerator/{name}",
            title=title,
            resource=GCE_TPU_WORKER,
            value=value,
            unit=unit,
            labels=("accelerator_id",),
            values=values,
        )
        for name, title, value, unit, values in rows
    )


@recorded(
    "monitoring-quota",
    "Quota in use is serviceruntime.googleapis.com/quota/allocation/usage on consumer_quota, by location, with the "
    "metric label quota_metric; what is reserved, leftovers included, not what runs.",
    source="openshift/installer#3819; notes on dashboards of a public repository",
)
def quota_metrics() -> tuple[MetricType, MetricType]:
    """Return the metric of usage and that of limits."""
    return (
        MetricType(
            type=f"{QUOTA}/allocation/usage",
            title="Allocation quota usage",
            resource=CONSUMER_QUOTA,
            value="INT64",
            unit="1",
            labels=("quota_metric",),
        ),
        MetricType(
            type=f"{QUOTA}/limit",
            title="Quota limit",
            resource=CONSUMER_QUOTA,
            value="INT64",
            unit="1",
            labels=("quota_metric", "limit_name"),
        ),
    )
