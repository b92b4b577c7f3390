"""Locks between the processes of a host, held by at most one and let go by the kernel when it dies: bound sockets.

A name in Linux's abstract namespace has no file, no owner and no leftover. Containers see those of their own network
namespace alone. Whoever holds one can be sent to by that name, as to an inbox.
"""

import hashlib
import json
import os
import select
import socket
import threading
import weakref
from typing import Any, Final

PREFIX: Final = "\0verl-otel/"
_LONGEST: Final = 100
"""Bytes that a name may have."""

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """A lock of that name; holding it is also having its inbox."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket: socket.socket | None = None
        self._closing = threading.Lock()
        self._closed = False

    def acquire(self) -> bool:
        """Whether this process holds it now; asks again at each call. Raises nothing."""
        with self._closing:
            if self._socket is None and not self._closed:
                self._socket = _bind(self.name)
                _held.add(self)
            return self._socket is not None

    def receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message that was sent to it; None if none came in so long, or it was none.

        The kernel keeps ten of them only, so a thread should wait here.
        """
        if (found := self._socket) is None:
            return None
        try:
            ready, _, _ = select.select([found], [], [], seconds)
            message = json.loads(found.recv(65536)) if ready else None
        except (OSError, ValueError):  # it was let go of meanwhile, or that was no message
            return None
        return message if isinstance(message, dict) else None

    def release(self) -> None:
        """Let go, for good."""
        with self._closing:
            self._closed = True
            found, self._socket = self._socket, None
        if found is not None:
            found.close()


def _bind(name: str) -> socket.socket | None:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        found.bind(_address(name))
        found.setblocking(False)
    except OSError:
        found.close()
        return None
    return found


def send(name: str, message: dict[str, Any]) -> bool:
    """Send to whoever holds the lock, without waiting; False if nobody does, or it can take no more now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.setblocking(False)
        try:
            found.sendto(json.dumps(message).encode(), _address(name))
        except OSError:
            return False
    return True


def _address(name: str) -> bytes:
    whole = (PREFIX + name).encode()
    if len(whole) <= _LONGEST:
        return whole
    return PREFIX.encode() + hashlib.sha256(whole).hexdigest().encode()


def _forget_in_child() -> None:
    # A child has the socket too, and would hold the lock after its parent's death.
    for one in list(_held):
        one._closing = threading.Lock()  # noqa: SLF001 - a thread that the child doesn't have may hold it
        one.release()


os.register_at_fork(after_in_child=_forget_in_child)
