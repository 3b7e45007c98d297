"""A process takes the chips of a worker, and while it has them the worker's metrics are served, as by libtpu."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncssh
import grpc
import psutil
import pytest

# tpu-info's own messages and stub say whether ours are right
from tpu_info.proto import tpu_metric_service_pb2 as messages
from tpu_info.proto import tpu_metric_service_pb2_grpc as stubs
from tpu_info.proto import tpu_telemetry_pb2 as telemetry

from jupyter_tpu.emulator.runtime_metrics import readings
from jupyter_tpu.emulator.runtime_metrics.metrics_script import Script, read_script, write_script
from jupyter_tpu.emulator.runtime_metrics.readings import Reading
from jupyter_tpu.emulator.workers.chips import GIB, ReservedPort, chips_of, is_in_use, reserve_port, write_chips

TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USED = "tpu.runtime.hbm.memory.usage.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
IDLE = "tpu.runtime.tensorcore.idle_duration.seconds"
BANDWIDTH = "tpu.runtime.hbm.utilization.percent"
QUEUES = "hlo.queue.size.gauge"
TIMES = "hlo.execution.timing.distribution.microseconds"


# -- what is told of each type


def values(accelerator_type: str, name: str, worker_id: int = 0, **reading: Any) -> list[tuple[int, float]]:
    """Device id and value, as tpu-info reads them."""
    chips = chips_of(accelerator_type, worker_id, "host")
    nothing: dict[str, Any] = {"moment": 1.0, "memory_bytes": 0, "busy_percent": 0.0, "idle_s": 0.0}
    seen = Reading(**{**nothing, **reading})
    answer = messages.MetricResponse.FromString(readings.metric(name, chips, seen).SerializeToString())
    assert answer.metric.name == name
    assert answer.metric.description.startswith("Emulated")
    kind = "as_double" if name in (DUTY, IDLE, BANDWIDTH) else "as_int"
    return [(each.attribute.value.int_attr, getattr(each.gauge, kind)) for each in answer.metric.metrics]


@pytest.mark.parametrize(
    ("accelerator_type", "devices", "chips", "gib"),
    [("v2-8", 8, 4, 8), ("v3-8", 8, 4, 16), ("v4-8", 4, 4, 32), ("v5litepod-8", 8, 8, 16), ("v5p-8", 4, 4, 95)],
)
def test_memory_is_told_per_device_and_duty_per_chip(accelerator_type: str, devices: int, chips: int, gib: int) -> None:
    assert values(accelerator_type, TOTAL) == [(device, gib * GIB) for device in range(devices)]
    assert values(accelerator_type, DUTY, busy_percent=12.5) == [(chip, 12.5) for chip in range(chips)]
    assert values(accelerator_type, IDLE, idle_s=3.0) == [(device, 3.0) for device in range(devices)]


def test_devices_are_counted_over_all_workers_of_a_slice() -> None:
    assert [device for device, _ in values("v3-32", TOTAL, worker_id=2)] == list(range(16, 24))
    assert [chip for chip, _ in values("v3-32", DUTY, worker_id=2)] == list(range(8, 12))


def test_memory_in_use_is_spread_over_the_devices_and_never_more_than_there_is() -> None:
    assert values("v4-8", USED, memory_bytes=4 * GIB) == [(device, GIB) for device in range(4)]
    assert values("v4-8", USED, memory_bytes=1000 * GIB) == [(device, 32 * GIB) for device in range(4)]


@pytest.mark.parametrize(("accelerator_type", "has_bandwidth"), [("v3-8", False), ("v4-8", True), ("v6e-8", True)])
def test_bandwidth_is_a_metric_from_v4_on(accelerator_type: str, has_bandwidth: bool) -> None:
    assert (BANDWIDTH in readings.supported(chips_of(accelerator_type, 0, "host"))) == has_bandwidth


def test_what_was_laid_down_is_told_in_place_of_what_is_measured() -> None:
    script = Script(
        duty_percent=(10.5, 200.0), memory_percent=(50.0,), bandwidth_percent=(5.0,), idle_s=(1.0, 2.0, 3.0)
    )

    assert values("v4-8", DUTY, script=script) == [(0, 10.5), (1, 200.0), (2, 10.5), (3, 200.0)]
    assert values("v4-8", USED, script=script) == [(device, 16 * GIB) for device in range(4)]
    assert values("v4-8", BANDWIDTH, script=script) == [(device, 5.0) for device in range(4)]
    assert values("v4-8", IDLE, script=script) == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 1.0)]
    assert values("v4-8", IDLE, script=Script(duty_percent=(1.0,)), idle_s=9.0) == [(each, 9.0) for each in range(4)]


def test_chips_lie_when_they_are_told_to() -> None:
    assert all(math.isnan(duty) for _, duty in values("v4-8", DUTY, script=Script(lie="nan")))
    assert values("v4-8", TOTAL, script=Script(lie="missing")) == [(0, 32 * GIB), (2, 32 * GIB)]


def test_what_was_laid_down_holds_until_it_is_taken_back(tmp_path: Path) -> None:
    script = Script(duty_percent=(1.5,), lie="hang")

    write_script(tmp_path, script)
    assert read_script(tmp_path) == script
    write_script(tmp_path, None)
    assert read_script(tmp_path) is None


# -- the port that waits for a holder


def test_a_kept_port_refuses_whoever_connects_and_is_given_to_nobody_else() -> None:
    with contextmanager_of(ReservedPort(0)) as port:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port.number), timeout=5):
            pass
        with pytest.raises(OSError, match="in use"):
            ReservedPort(port.number)


@contextmanager
def contextmanager_of(port: ReservedPort) -> Iterator[ReservedPort]:
    try:
        yield port
    finally:
        port.close()


def test_the_first_choice_of_a_port_is_taken_while_it_is_free(tmp_path: Path) -> None:
    with contextmanager_of(ReservedPort(0)) as taken:
        first = taken.number
        with contextmanager_of(reserve_port(tmp_path / "a", first)) as port:
            assert port.number != first
    with contextmanager_of(reserve_port(tmp_path / "b", first)) as port:
        assert port.number == first
    with contextmanager_of(reserve_port(tmp_path / "b")) as again:
        assert again.number == first


def test_chips_that_nobody_took_are_not_held(tmp_path: Path) -> None:
    write_chips(tmp_path, chips_of("v4-8", 0, "host"), 1)

    assert not is_in_use(tmp_path)


# -- on a worker


class Worker:
    """A worker with somebody who watches its metrics from outside."""

    def __init__(self, connection: asyncssh.SSHClientConnection, port: int) -> None:
        self.connection = connection
        self.port = port
        self.channel = grpc.aio.secure_channel(f"localhost:{port}", grpc.local_channel_credentials())
        self.stub = stubs.RuntimeMetricServiceStub(self.channel)

    async def hold(self, command: str = "emulated-tpu hold") -> asyncssh.SSHClientProcess[str]:
        """Start a holder; it has the chips when this returns."""
        process = await self.connection.create_process(command)
        line = await asyncio.wait_for(process.stdout.readline(), 120)
        assert "holding" in line, await process.stderr.read()
        return process

    async def gauges(self, name: str, kind: str) -> list[float]:
        request = messages.MetricRequest(metric_name=name)
        answer = await self.stub.GetRuntimeMetric(request, wait_for_ready=True)
        return [getattr(each.gauge, kind) for each in answer.metric.metrics]

    async def until_nobody_serves(self) -> None:
        """The service goes a moment after its holder."""
        async with asyncio.timeout(120):
            while not is_refused(self.port):  # noqa: ASYNC110 - nothing tells of a port that closes
                await asyncio.sleep(0.02)


def is_refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
async def make_worker(cloud: Any, user_key: Any, login: Any) -> AsyncIterator[Callable[..., Any]]:
    made: list[Worker] = []

    async def make(**fields: Any) -> Worker:
        await cloud.create(metadata=user_key.metadata, **fields)
        connection = await login((await cloud.guest_items())[0])
        port = await connection.run("echo $TPU_RUNTIME_METRICS_PORTS", check=True)
        made.append(Worker(connection, int(port.stdout)))
        return made[-1]

    yield make
    for worker in made:
        await worker.channel.close()


async def test_the_second_process_is_refused_in_libtpus_words_with_the_holders_pid(make_worker: Any) -> None:
    worker = await make_worker()
    holder = await worker.hold("python3 -c \"import emulated_tpu, os; emulated_tpu.take(); print('holding'); input()\"")
    pid = (await worker.connection.run("emulated-tpu who", check=True)).stdout.strip()
    assert "emulated_tpu.take()" in " ".join(psutil.Process(int(pid)).cmdline())

    refused = await worker.connection.run("python3 -c 'import emulated_tpu; emulated_tpu.take()'")

    said = f"The TPU is already in use by process with pid {pid}. Not attempting to load libtpu.so in this process."
    assert refused.stderr.splitlines()[-1] == f"emulated_tpu.ChipsInUse: ABORTED: {said}"
    holder.stdin.write_eof()
    await holder.wait()
    again = await worker.connection.run("emulated-tpu hold", stdin=asyncssh.DEVNULL)
    assert (again.exit_status, again.stderr) == (0, "")


async def test_metrics_are_served_only_while_a_process_has_the_chips(make_worker: Any) -> None:
    worker = await make_worker(accelerator_type="v3-8", runtime_version="tpu-ubuntu2204-base")
    assert is_refused(worker.port)

    holder = await worker.hold()
    names = (await worker.stub.ListSupportedMetrics(messages.ListSupportedMetricsRequest())).supported_metric
    status = await worker.stub.GetTpuRuntimeStatus(messages.GetTpuRuntimeStatusRequest())
    assert [each.metric_name for each in names] == [TOTAL, USED, DUTY, IDLE, QUEUES, TIMES]
    assert await worker.gauges(TOTAL, "as_int") == [16 * GIB] * 8
    assert await worker.gauges(QUEUES, "as_int") == [0] * 8
    assert (sorted(status.core_states), status.core_states[5].core_id.chip_id) == (list(range(8)), 2)
    assert status.core_states[5].core_id.core_on_chip.type == telemetry.TPU_CORE_TYPE_TENSOR_CORE
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await worker.gauges("tpu.no.such.metric", "as_int")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND

    holder.kill()  # without a word
    await worker.until_nobody_serves()


async def test_memory_and_duty_follow_what_the_holder_does(make_worker: Any) -> None:
    worker = await make_worker()
    program = "import emulated_tpu as e; e.take(); print('holding'); input(); x = b'x' * 400_000_000; print(1); input()"
    holder = await worker.hold(f'python3 -c "{program}\nwhile True: pass"')
    before, idle = sum(await worker.gauges(USED, "as_int")), await worker.gauges(DUTY, "as_double")

    holder.stdin.write("grow\n")
    await holder.stdout.readline()
    async with asyncio.timeout(120):
        while (after := sum(await worker.gauges(USED, "as_int"))) == before:  # noqa: ASYNC110 - measured when one asks
            await asyncio.sleep(0.2)
    holder.stdin.write("work\n")
    async with asyncio.timeout(120):
        # it is the holder's share of the processor, of which a loaded machine has little left
        while max(await worker.gauges(DUTY, "as_double")) <= max(idle) + 1:  # noqa: ASYNC110 - measured when one asks
            await asyncio.sleep(0.2)

    assert after - before == pytest.approx(400_000_000, rel=0.1)
    assert max(idle) < 30
    assert len(idle) == 8
    assert await worker.gauges(IDLE, "as_double") == [0.0] * 8


async def test_a_program_that_knows_nothing_of_it_has_the_chips_to_its_end(make_worker: Any) -> None:
    worker = await make_worker()
    holder = await worker.hold("emulated-tpu run sh -c 'echo holding $$; read line; exit 5'")

    who = await worker.connection.run("emulated-tpu who", check=True)
    assert psutil.Process(int(who.stdout)).name() == "sh"
    assert (await worker.gauges(TOTAL, "as_int"))[0] == 16 * GIB
    holder.stdin.write("end\n")

    assert (await holder.wait()).exit_status == 5
    await worker.until_nobody_serves()
    assert (await worker.connection.run("emulated-tpu who")).stdout == "free\n"
    assert (await worker.connection.run("emulated-tpu run no-such-program")).exit_status == 127


async def test_holder_and_metrics_go_down_with_their_worker(make_worker: Any, cloud: Any) -> None:
    worker = await make_worker()
    await worker.hold()

    await cloud.stop()

    assert is_refused(worker.port)
    with contextmanager_of(ReservedPort(worker.port)):
        pass


async def test_chips_stay_held_when_the_emulator_is_killed(make_worker: Any, cloud: Any, login: Any) -> None:
    worker = await make_worker()
    start = "setsid emulated-tpu run sleep 1000 </dev/null >/dev/null 2>&1"
    wait = "until emulated-tpu who | grep -v free; do :; done"
    pid = await worker.connection.run(f"{start} & {wait}", check=True)
    cloud.emulator.kill()
    cloud.emulator.start()
    await cloud.reconnect()

    connection = await login((await cloud.guest_items())[0])
    after = await connection.run("emulated-tpu who; echo $TPU_RUNTIME_METRICS_PORTS", check=True)
    assert after.stdout.split() == [pid.stdout.strip(), str(worker.port)]
    assert await worker.gauges(TOTAL, "as_int") == [16 * GIB] * 8
    cloud.emulator.stop()
    assert is_refused(worker.port)


async def test_without_an_emulated_tpu_there_is_none_to_take(make_worker: Any) -> None:
    worker = await make_worker()

    done = await worker.connection.run("env -u EMULATED_TPU emulated-tpu hold")

    assert (done.exit_status, done.stderr) == (1, "TPU initialization failed: No jellyfish device found.\n")
