"""Requests as gRPC brings them: bytes, which are parsed here so that what is no message is refused like anything else.

grpc's own parsing answers UNKNOWN with words of Python, and writes a traceback to the log.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.rpc import code_pb2

from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.behaviours import assumed


@assumed("no-protobuf", "A gRPC request that is no protobuf message is refused with INTERNAL, in grpc's own words.")
def message_in(sent: bytes, kind: type[Any]) -> Any:
    """The message of this kind; raises Refusal."""
    try:
        return kind.FromString(sent)
    except DecodeError as error:
        words = "Exception deserializing request!"
        raise errors.Refusal(errors.status_of(code_pb2.INTERNAL, words)) from error
