"""Answers of the API: JSON in which what is no number is null, packed where the client can unpack it."""

import gzip
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

JSON: Final = "application/json"
_WORTH_PACKING: Final = 1 << 10
_LEVEL: Final = 3
"""Loopback is fast: more would cost more time than it saves."""
_FRESH: Final = {"cache-control": "no-store", "vary": "accept-encoding"}


def encoded(value: Any) -> bytes:
    """JSON. NaN and infinities, of which it knows nothing, become null."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:  # numbers beyond 64 bits, texts that are no Unicode: somebody's data may have them
        return json.dumps(_cleaned(value), allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, tuple):  # one with names
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def _cleaned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    return value


def packed(request: Request, value: Any) -> Response:
    """An answer, ready to be sent; it takes time for large ones, so not on the event loop."""
    body, headers = encoded(value), dict(_FRESH)
    if len(body) >= _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, _LEVEL, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(body, media_type=JSON, headers=headers)


def error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal in one line."""
    return Response(encoded({"error": text}), status, {**_FRESH, **(headers or {})}, JSON)
