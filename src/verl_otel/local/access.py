"""Who may ask: pages of other origins, other names of this machine and whoever lacks the token are refused.

A page on the web can send requests to loopback, and by a name that it makes point to 127.0.0.1 it could read answers
(DNS rebinding). So the Host must be ours, an Origin must be the same, and answers name what a browser may do with them.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from verl_otel.local.otlp.http import PREFIX as OTLP

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
API: Final = "/api/"
_TOKEN: Final = "token"  # noqa: S105 - the name of a parameter

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Access:
    """ASGI middleware. `bind`: the address that is listened on. `token`: asked for, but of OTLP, which asks itself."""

    def __init__(self, app: ASGIApp, bind: str, token: str | None = None) -> None:
        self._app = app
        # Beyond loopback a host has names that nobody told us; there the token keeps others out, since a cookie is of
        # one name.
        self._hosts = None if bind in WILDCARDS or token is not None else LOOPBACK | {bind.lower()}
        self._token = token
        self._proof = None if token is None else hashlib.sha256(token.encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(scope, headers) or self._entrance(scope, headers)
        if answer is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            status, text, more = answer
            await _answer(_with_headers(send), status, text, more)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> "_Answer | None":
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return 421, f"this backend isn't {host or 'without a name'}: ask it as 127.0.0.1 or localhost", {}
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, f"a page of {origin} may not ask this backend", {}
        is_data = scope["path"].startswith((API, OTLP))
        if is_data and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return 403, "another page may not ask this backend", {}
        return None

    def _entrance(self, scope: Scope, headers: Mapping[str, str]) -> "_Answer | None":
        """Where a token is asked for: it is shown once, in the link, and then a cookie stands for it."""
        if self._token is None or self._proof is None or scope["path"].startswith(OTLP):
            return None
        cookie = f"verl-otel-{_port(headers.get('host', ''))}"
        if _same(_cookie(headers, cookie), self._proof) or _same(headers.get("authorization"), f"Bearer {self._token}"):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if _same(next(iter(query.pop(_TOKEN, ())), None), self._token):
            rest = urlencode(query, doseq=True)
            return (
                303,
                "",
                {
                    "location": quote(scope["path"]) + (f"?{rest}" if rest else ""),
                    "set-cookie": f"{cookie}={self._proof}; Path=/; HttpOnly; SameSite=Lax",
                },
            )
        return 401, "open the link that `verl-otel up` prints: it has the token", {"www-authenticate": "Bearer"}


_Answer = tuple[int, str, dict[str, str]]


def _name(host: str) -> str:
    """Of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _port(host: str) -> str:
    """Cookies know no ports: each has a name of its own."""
    try:
        return str(urlsplit(f"//{host}").port or "")
    except ValueError:
        return ""


def _same(shown: str | None, wanted: str) -> bool:
    return shown is not None and hmac.compare_digest(shown.encode(), wanted.encode())


def _cookie(headers: Mapping[str, str], name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return found.value if found is not None else None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


async def _answer(send: Send, status: int, text: str, more: Mapping[str, str]) -> None:
    body = json.dumps({"error": text}).encode() if text else b""
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **more,
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
