"""TensorFlow with TPUs as far as `%tpu_init` touches it."""

import os
from types import SimpleNamespace

from touched import touch

touch("import tensorflow")
_range = range


class OpError(Exception):
    """As those of TensorFlow's runtime."""


class TPUStrategy:
    def __init__(self, resolver):
        touch(f"TPUStrategy on {resolver}")
        self.num_replicas_in_sync = 8

    def run(self, step):
        return [step() for distribute.place in _range(8)]

    def reduce(self, how, parts, axis):
        return sum(parts)


def resolver_of(name):
    touch(f"TPUClusterResolver {name}")
    return name


def initialize_tpu_system(resolver):
    touch("initialize_tpu_system")
    if said := os.environ.get("FAKE_FAILURE"):
        raise OpError(said)


distribute = SimpleNamespace(
    place=0,
    TPUStrategy=TPUStrategy,
    cluster_resolver=SimpleNamespace(TPUClusterResolver=resolver_of),
    get_replica_context=lambda: SimpleNamespace(replica_id_in_sync_group=distribute.place),
)
config = SimpleNamespace(
    experimental_connect_to_cluster=lambda resolver: touch(f"connect to {resolver}"),
    list_logical_devices=lambda kind: [SimpleNamespace(name=f"{kind}:{n}", device_type=kind) for n in _range(8)],
)
tpu = SimpleNamespace(experimental=SimpleNamespace(initialize_tpu_system=initialize_tpu_system))
errors = SimpleNamespace(OpError=OpError)
int32 = int
function = staticmethod(lambda body: body)


def cast(value, kind):
    return kind(value)


class Numbers(list):
    """As a tensor: a number is added to each."""

    def __add__(self, number):
        return [each + number for each in self]


def reduce_sum(values):
    return sum(values)


globals()["range"] = lambda count: Numbers(_range(count))
