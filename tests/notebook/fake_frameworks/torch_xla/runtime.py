import os

from touched import touch

from torch_xla import state


def is_spmd():
    return state.is_spmd


def use_spmd():
    touch("use_spmd")
    if state.is_locked:
        os.abort()
    state.is_spmd = True


def device_type():
    return os.environ.get("FAKE_DEVICE_TYPE") or os.environ["PJRT_DEVICE"]


def addressable_runtime_device_count():
    touch("addressable_runtime_device_count")
    if said := os.environ.get("FAKE_FAILURE"):
        raise RuntimeError(said)
    return int(os.environ.get("FAKE_DEVICES", "8"))


def global_runtime_device_attributes():
    return [{"name": f"TPU:{number}"} for number in range(addressable_runtime_device_count())]
