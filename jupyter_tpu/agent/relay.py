"""Connect standard input and output to the agent's socket if the SSH server forbids socket forwarding.

Clients send this program on standard input, as for `bootstrap`, so it is a single file that needs only the standard
library. Then they send one JSON line ``{"socket"}``, followed by the bytes to relay.
"""

import json
import os
import socket
import sys
import threading

# Bytes to read at once: one slice of output (`wire.frames.SLICE_BYTES`), so that a slice needs only one read.
PIECE_BYTES = 256 * 1024


def upwards(connection: socket.socket) -> None:
    """Copy standard input to the agent until the end of the input."""
    while data := sys.stdin.buffer.read1(PIECE_BYTES):  # type: ignore[union-attr]
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def downwards(connection: socket.socket) -> None:
    """Copy the agent's bytes to standard output until the agent closes the connection."""
    while data := connection.recv(PIECE_BYTES):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def main() -> None:
    """Copy data in both directions until the agent closes the connection."""
    request = json.loads(sys.stdin.buffer.readline())
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(request["socket"])
    threading.Thread(target=upwards, args=(connection,), daemon=True).start()
    try:
        downwards(connection)
    except OSError as error:
        sys.exit(str(error))
    os._exit(0)  # the other thread may block on standard input forever


if __name__ == "__main__":
    main()
