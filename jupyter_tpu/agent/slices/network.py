"""This worker's place in the network of its node, read from the metadata server. All functions block."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from jupyter_tpu.agent.metadata import metadata_host, read_metadata
from jupyter_tpu.errors import EnvironmentFailed

# Variables that are set on nodes that compute together. `tpu-env` has a line ``KEY: 'value'`` for each variable.
_MEGASCALE = re.compile(r"^(MEGASCALE_\w+): *'([^'\n]*)'", re.MULTILINE)


def own_address() -> str:
    """Return this worker's address in the slice's own network.

    Raises:
        EnvironmentFailed: the metadata server doesn't provide the address.
    """
    why = ""
    try:
        address = read_metadata(metadata_host(os.environ), "instance/network-interfaces/0/ip").strip()
    except OSError as error:
        address, why = "", str(error)
    if not address:
        raise EnvironmentFailed(
            "The address of worker 0 in the slice's network is unknown: its metadata server does not name it.",
            hint="Check the node with `jupyter tpu doctor`.",
            raw=why,
        )
    return address


def node_facts() -> tuple[int, dict[str, str]]:
    """Return the number of the node's workers (0 if unknown) and the variables for multislice, if there are any."""
    endpoints = _attribute("worker-network-endpoints")
    workers = len(endpoints.split(",")) if endpoints else 0
    return workers, dict(_MEGASCALE.findall(_attribute("tpu-env")))


def _attribute(name: str) -> str:
    with suppress(OSError):
        return read_metadata(metadata_host(os.environ), f"instance/attributes/{name}").strip()
    return ""
