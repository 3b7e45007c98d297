"""Start TensorFlow on this worker's chips and check that it computes there.

On an emulated worker, where TPUStrategy can't run, a MirroredStrategy on CPU devices replaces it.
"""

from __future__ import annotations

from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.claim_chips import claim_chips
from jupyter_tpu.notebook.tpu_init.imports import import_framework
from jupyter_tpu.notebook.tpu_init.ready import VALUES_PER_DEVICE, Ready, Tpu, expected_sum, proof_text
from jupyter_tpu.notebook.tpu_init.report import Device

NOTE = Text("create models inside `with tpu.strategy.scope():`")
STAND_IN = Text("a MirroredStrategy over CPU devices replaces TPUStrategy here; {note}", note=NOTE)


class _Started:
    """TensorFlow's strategy in this process.

    It is stored, because starting the TPU a second time would lose the variables on it.
    """

    strategy: Any = None


def start_tf(worker: ThisWorker) -> Ready:
    """Start TensorFlow on the devices of `worker` and run one operation on all of them.

    Raises:
        AcceleratorFailed: TensorFlow is missing, has no TPU, was started before, or computes a wrong result.
        AcceleratorBusy: another process uses the TPU.
    """
    tf = import_framework("tf", "tensorflow", worker)
    claim_chips(worker, "tf")
    # A second %tpu_init tests the same strategy again.
    if _Started.strategy is None:
        _Started.strategy = _start(tf, worker)
    strategy = _Started.strategy
    devices = tuple(tf.config.list_logical_devices("CPU" if worker.is_emulated else "TPU"))
    _check_devices(len(devices), strategy.num_replicas_in_sync, worker)
    _prove(tf, strategy)
    tpu = Tpu(
        framework="tf", devices=devices, device=devices[0].name, strategy=strategy, is_emulated=worker.is_emulated
    )
    described = tuple(Device(id=number, kind=each.device_type) for number, each in enumerate(devices))
    note = STAND_IN if worker.is_emulated else NOTE
    return Ready(tpu=tpu, devices=described, proof=proof_text(len(devices)), note=note)


def _start(tf: Any, worker: ThisWorker) -> Any:
    try:
        return _stand_in(tf, worker.jax_devices or 1) if worker.is_emulated else _on_tpu(tf)
    except (RuntimeError, ValueError, OSError, tf.errors.OpError) as error:
        raise diagnosis.diagnose_start(str(error), worker, "tf") from error


def _on_tpu(tf: Any) -> Any:
    # On a TPU VM, “local” is the machine's own TPU; for any other name, TensorFlow queries the cloud.
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver("local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _stand_in(tf: Any, count: int) -> Any:
    # TensorFlow has one CPU device; split it into as many logical devices as the worker would have.
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(count)])


def _check_devices(count: int, replicas: int, worker: ThisWorker) -> None:
    if count == 0:
        raise diagnosis.fell_back_to_cpu("tf.config.list_logical_devices('TPU') is empty", worker, "tf")
    expected = worker.jax_devices if worker.jax_devices is not None else count
    if (count, replicas) != (expected, expected):
        raise diagnosis.wrong_devices(min(count, replicas), worker, "tf")


def _prove(tf: Any, strategy: Any) -> None:
    # Each replica adds up its own part of the numbers, so that every device takes part in the sum.
    def add_up() -> Any:
        place = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
        return tf.reduce_sum(tf.range(VALUES_PER_DEVICE) + VALUES_PER_DEVICE * place)

    parts = tf.function(lambda: strategy.run(add_up))()
    total = int(strategy.reduce("SUM", parts, axis=None))
    _, exact = expected_sum(strategy.num_replicas_in_sync)
    if total != exact:
        raise diagnosis.wrong_sum(total, exact)
