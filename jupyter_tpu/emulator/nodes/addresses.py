"""The internal addresses of workers.

On Linux, each worker has its own address, so that workers can connect to each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.protos import NodePb

ONLY_ADDRESS = "127.0.0.1"
BLOCKS = 254 * 256  # 127.1.0 to 127.254.255; 127.0 is reserved for this machine's services, such as a resolver
WORKERS_PER_BLOCK = 253
HAS_OWN_ADDRESSES = sys.platform == "linux"
"""Whether all addresses in 127.0.0.0/8 belong to this machine, as on Linux; on other systems, only 127.0.0.1 does."""

FindNode = Callable[[str], NodePb | None]


class Addresses:
    """The addresses of all workers; a node keeps its addresses until it is deleted."""

    def __init__(self, find_node: FindNode, *, is_shared: bool = not HAS_OWN_ADDRESSES) -> None:
        self._find_node = find_node
        self._is_shared = is_shared
        self._owners: dict[int, tuple[str, int]] = {}

    @assumed(
        "internal-addresses",
        "On Linux, the workers of a node have the internal addresses 127.A.B.1, 127.A.B.2 and so on. No two "
        "workers have the same address, so they can listen on the same port. On other systems, all workers "
        "share 127.0.0.1, the only loopback address. Programs that listen on the same port of each worker, "
        "such as the coordinators of two slices with JAX, conflict there. A real worker has an address in "
        "its VPC network.",
    )
    def assign(self, node: NodePb, workers: int) -> list[str]:
        """Return the address of each worker: the node's existing addresses, or new ones that no other node has."""
        if self._is_shared:
            return [ONLY_ADDRESS] * workers
        current = [str(endpoint.ip_address) for endpoint in node.network_endpoints]
        # older emulators assigned addresses from a different network
        if len(current) != workers or not all(map(_is_ours, current)):
            current = _addresses_from(self._free_block(node, workers), workers)
        for block in set(map(_block_of, current)):
            self._owners[block] = (node.name, node.id)
        return current

    def _free_block(self, node: NodePb, workers: int) -> int:
        """Return the number of the first address block for a node. The search begins at a block derived from its id."""
        last = BLOCKS - -(-workers // WORKERS_PER_BLOCK)
        preferred = int(node.id) % (last + 1)
        for first in chain(range(preferred, last + 1), range(preferred)):
            needed = _addresses_from(first, workers)[::WORKERS_PER_BLOCK]
            if all(self._is_free(_block_of(address), node) for address in needed):
                return first
        # all blocks are in use, so two nodes must share a block
        return preferred

    def _is_free(self, block: int, node: NodePb) -> bool:
        owner = self._owners.get(block)
        if owner is None or owner == (node.name, node.id):
            return True
        # look up the owner, because nodes are removed in several places without releasing their blocks
        found = self._find_node(owner[0])
        return found is None or bool(found.id != owner[1])


def _addresses_from(block: int, workers: int) -> list[str]:
    return [_address(block + worker // WORKERS_PER_BLOCK, worker % WORKERS_PER_BLOCK + 1) for worker in range(workers)]


def _address(block: int, host: int) -> str:
    return f"127.{block // 256 + 1}.{block % 256}.{host}"


def _block_of(address: str) -> int:
    _, first, second, _ = map(int, address.split("."))
    return (first - 1) * 256 + second


def _is_ours(address: str) -> bool:
    return address.startswith("127.") and address != ONLY_ADDRESS
