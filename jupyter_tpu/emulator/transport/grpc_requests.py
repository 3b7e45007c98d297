"""Parses the bytes of a gRPC request, so that bytes that are not a message are refused like any other bad request.

If grpc parsed them, it would answer UNKNOWN with a Python error and write a traceback to the log.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.rpc import code_pb2

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed


@assumed("no-protobuf", "A gRPC request that is not a protobuf message is refused with INTERNAL and grpc's own text.")
def message_in(sent: bytes, kind: type[Any]) -> Any:
    """Parse a message of this kind.

    Raises:
        Refusal: the bytes are not such a message.
    """
    try:
        return kind.FromString(sent)
    except DecodeError as error:
        text = "Exception deserializing request!"
        raise errors.Refusal(errors.status_of(code_pb2.INTERNAL, text)) from error
