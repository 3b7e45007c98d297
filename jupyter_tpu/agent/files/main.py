"""The replica of a folder on a node: it serves the connection that the agent has accepted and passed on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from jupyter_tpu.agent.files.replica import serve_folder
from jupyter_tpu.agent.socket_stream import SocketStream, exit_with_agent

_NICE = 10  # kernels come first


def main(arguments: list[str]) -> None:
    """Serve a folder.

    Args:
        arguments: the descriptor of the client's connection, and the folder.
    """
    descriptor, folder = arguments
    os.nice(_NICE)
    exit_with_agent()
    stream = SocketStream.accept(int(descriptor))
    with suppress(OSError):  # the replica reports what is wrong with the folder
        Path(folder).mkdir(parents=True, exist_ok=True)
    serve_folder(Path(folder), stream.read, stream.write)
    stream.close()
