"""Between standard input/output and the agent's socket, where the SSH server forbids forwarding to Unix sockets.

Sent on standard input like `bootstrap`, so one file and only the standard library; then one JSON line ``{"socket"}``,
then the bytes to pass on.
"""

import json
import os
import socket
import sys
import threading

PIECE_BYTES = 256 * 1024


def upwards(connection: socket.socket) -> None:
    while data := sys.stdin.buffer.read1(PIECE_BYTES):  # type: ignore[union-attr]
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def downwards(connection: socket.socket) -> None:
    while data := connection.recv(PIECE_BYTES):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(request["socket"])
    threading.Thread(target=upwards, args=(connection,), daemon=True).start()
    try:
        downwards(connection)
    except OSError as error:
        sys.exit(str(error))
    os._exit(0)


if __name__ == "__main__":
    main()
