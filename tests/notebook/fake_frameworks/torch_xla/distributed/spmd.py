from types import SimpleNamespace

from touched import touch


class Mesh:
    def __init__(self, device_ids, mesh_shape, axis_names):
        self.device_ids = device_ids
        touch(f"Mesh {mesh_shape} {axis_names}")


def mark_sharding(tensor, mesh, partition_spec):
    touch("mark_sharding")
    return SimpleNamespace(local_shards=[SimpleNamespace(shard_device=number) for number in mesh.device_ids])
