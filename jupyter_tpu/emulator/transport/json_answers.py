"""Responses and errors in JSON, in Google's format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, json_format
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2

from jupyter_tpu.emulator.resources.behaviours import recorded
from jupyter_tpu.emulator.transport.versions import Fields, View, version_of

_URL = "type.googleapis.com/"

# google.rpc.Code documents the HTTP status of each code; codes missing here are 500
HTTP_STATUS = {
    code_pb2.CANCELLED: 499,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.UNAUTHENTICATED: 401,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.UNAVAILABLE: 503,
}


@dataclass(frozen=True, slots=True)
class Printer:
    """Formats the emulator's responses to one request as JSON.

    `numbers_for_enums` is true for google-cloud-tpu's REST transport, which sends ``$alt=json;enum-encoding=int``.
    """

    view: View
    numbers_for_enums: bool = False

    @recorded(
        "json",
        "JSON uses camelCase names, int64 values as strings, and the names of enum values. Fields with default "
        "values are omitted, except done:false.",
        source="google.protobuf.json_format; SkyPilot 0.14.1 reads result['done']",
    )
    def fields(self, answer: Message) -> Fields:
        """Return the response as JSON fields."""
        if isinstance(answer, operations_pb2.Operation):
            return self._operation(answer)
        if isinstance(answer, operations_pb2.ListOperationsResponse):
            operations = [self._operation(each) for each in answer.operations]
            token = {"nextPageToken": answer.next_page_token} if answer.next_page_token else {}
            return {"operations": operations, **token} if operations else token
        return self._plain(self.view.shown(answer))

    def _plain(self, message: Message) -> Fields:
        shown: Fields = json_format.MessageToDict(message, use_integers_for_enums=self.numbers_for_enums)
        return shown

    def _operation(self, operation: operations_pb2.Operation) -> Fields:
        version = version_of(operation)
        shown: Fields = {"name": operation.name, "metadata": self._packed(operation.metadata, version)}
        shown["done"] = operation.done
        if operation.HasField("error"):
            shown["error"] = self._plain(operation.error)
        if operation.HasField("response"):
            shown["response"] = self._packed(operation.response, version)
        return shown

    def _packed(self, wrapper: any_pb2.Any, version: str) -> Fields:
        message = self.view.unpacked(wrapper, version)
        return {"@type": f"{_URL}{message.DESCRIPTOR.full_name}", **self._plain(message)}


@recorded(
    "pretty-print",
    "Responses are indented by two spaces unless prettyPrint=false is set.",
    source="responses of Google APIs in many public issues; discovery documents (parameter prettyPrint)",
)
def printed(fields: Mapping[str, Any], *, is_pretty: bool = True, status: int = 200) -> web.Response:
    """Return an HTTP response with these JSON fields."""
    text = json.dumps(fields, indent=2) + "\n" if is_pretty else json.dumps(fields, separators=(",", ":"))
    return web.Response(text=text, status=status, content_type="application/json", charset="UTF-8")


def refused(status: status_pb2.Status) -> web.Response:
    """Return an HTTP response with this error in Google's error envelope."""
    number = HTTP_STATUS.get(status.code, 500)
    error = {**envelope(number, status.message), "status": code_pb2.Code.Name(status.code)}
    if status.details:
        error["details"] = [json_format.MessageToDict(detail) for detail in status.details]
    return printed({"error": error}, status=number)


def envelope(number: int, message: str) -> Fields:
    """Return the body of an error that has only an HTTP status."""
    names = [code_pb2.Code.Name(code) for code, known in HTTP_STATUS.items() if known == number]
    return {"code": number, "message": message, "status": names[0] if names else "UNKNOWN"}
