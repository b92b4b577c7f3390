"""OTLP over HTTP as ASGI middleware: `POST /v1/traces`, `/v1/metrics`, `/v1/logs`."""

import asyncio
import hmac
import json
from collections.abc import Callable
from typing import Final

from google.protobuf.json_format import MessageToDict
from google.rpc import code_pb2, status_pb2
from starlette.types import ASGIApp, Receive, Scope, Send

from verl_otel.local.journal import JournalFullError
from verl_otel.local.otlp import requests
from verl_otel.local.otlp.requests import JSON, MOST_IN, PROTOBUF, REQUESTS, RequestError

Accept = Callable[[str, bytes], None]
"""Keeps a request: its signal, the protobuf. Raises `JournalFullError` for one that is to come again."""

PREFIX: Final = "/v1/"
_SMALL: Final = 64 << 10
"""Bytes of a plain request that is parsed at once: handing it to a thread would cost more."""
_CODES: Final = {
    400: code_pb2.INVALID_ARGUMENT,
    401: code_pb2.UNAUTHENTICATED,
    404: code_pb2.NOT_FOUND,
    405: code_pb2.UNIMPLEMENTED,
    413: code_pb2.INVALID_ARGUMENT,
    415: code_pb2.INVALID_ARGUMENT,
    429: code_pb2.RESOURCE_EXHAUSTED,
}


class _GoneError(Exception):
    """The client left in the middle of its request."""


class HttpReceiver:
    """Stands before the other routes: it is asked thousands of times a second. With a `token` clients must show it."""

    def __init__(self, app: ASGIApp, accept: Accept, token: str | None = None) -> None:
        self._app, self._accept = app, accept
        self._authorization = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await self._receive(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _receive(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        as_json = content_type.partition(";")[0].strip().lower() == JSON
        try:
            await self._export(scope, headers, content_type, receive)
        except _GoneError:
            return
        except RequestError as error:
            more = [(b"www-authenticate", b"Bearer")] if error.status == 401 else []
            if error.status in (401, 413):  # the rest of the body is not read
                more.append((b"connection", b"close"))
            more += [(b"allow", b"POST")] if error.status == 405 else []
            await _answer(send, error.status, _status(error.status, str(error), as_json), as_json, more)
        except JournalFullError as error:
            more = [(b"retry-after", str(error.wait).encode())]
            await _answer(send, 429, _status(429, str(error), as_json), as_json, more)
        else:
            await _answer(send, 200, b"{}" if as_json else b"", as_json, [])

    async def _export(self, scope: Scope, headers: dict[bytes, bytes], content_type: str, receive: Receive) -> None:
        signal = scope["path"].removeprefix(PREFIX).rstrip("/")
        if signal not in REQUESTS:
            raise RequestError(404, "there is /v1/traces, /v1/metrics and /v1/logs")
        if scope["method"] != "POST":
            raise RequestError(405, "OTLP is sent by POST")
        shown = headers.get(b"authorization", b"")
        if self._authorization is not None and not hmac.compare_digest(shown, self._authorization):
            raise RequestError(401, "the token is wrong or missing: see OTEL_EXPORTER_OTLP_HEADERS in `verl-otel env`")
        body = await _body(receive, headers.get(b"content-length", b""))
        encoding = headers.get(b"content-encoding", b"").decode("latin-1")
        if len(body) <= _SMALL and not encoding and content_type == PROTOBUF:
            self._keep(signal, body, content_type, encoding)
        else:
            await asyncio.get_running_loop().run_in_executor(None, self._keep, signal, body, content_type, encoding)

    def _keep(self, signal: str, body: bytes, content_type: str, encoding: str) -> None:
        self._accept(signal, requests.read(signal, body, content_type, encoding))


async def _body(receive: Receive, length: bytes) -> bytes:
    """Raises `RequestError` where it is too large, and `_GoneError`."""
    if length.isdigit() and int(length) > MOST_IN:
        raise RequestError(413, f"it is more than {MOST_IN >> 20} MiB")
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MOST_IN:
            raise RequestError(413, f"it is more than {MOST_IN >> 20} MiB")
        if not message.get("more_body"):
            return b"".join(chunks)


def _status(status: int, message: str, as_json: bool) -> bytes:
    made = status_pb2.Status(code=_CODES[status], message=message)
    return json.dumps(MessageToDict(made)).encode() if as_json else bytes(made.SerializeToString())


async def _answer(send: Send, status: int, body: bytes, as_json: bool, more: list[tuple[bytes, bytes]]) -> None:
    headers = [
        (b"content-type", (JSON if as_json else PROTOBUF).encode()),
        (b"content-length", str(len(body)).encode()),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
