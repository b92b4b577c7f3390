"""The ports: those of old while they are free, else the next that are; one that was asked for must be free."""

import socket
from collections.abc import Callable, Collection, Mapping
from typing import Final

from verl_otel.stack import StackError

USUAL: Final[Mapping[str, int]] = {
    "otlp-grpc": 4317,
    "otlp-http": 4318,
    "collector-own": 14318,
    "collector-health": 13133,
    "prometheus": 9090,
    "tempo": 3200,
    "tempo-otlp": 14317,
    "tempo-grpc": 9095,
    "tempo-memberlist": 7946,
    "grafana": 3000,
}
LOOPBACK: Final = "127.0.0.1"
_TRIES: Final = 200


def _option(name: str) -> str:
    return f"--port {name}=NUMBER"


def choose(
    wanted: Mapping[str, int],
    names: Collection[str],
    hosts: Mapping[str, str],
    option: Callable[[str], str] = _option,
) -> dict[str, int]:
    """A free port for each name; `hosts`: addresses that names are bound to, where not loopback.

    `option`: how the command's user asks for the port of a name.

    Raises `StackError` if a wanted one is taken, or can't be bound.
    """
    chosen: dict[str, int] = {}
    for name in names:
        host = hosts.get(name, LOOPBACK)
        if name in wanted:
            if (reason := _why_not(host, wanted[name])) is not None or wanted[name] in chosen.values():
                raise StackError(
                    f"port {wanted[name]} on {host}, wanted for {name}: {reason or 'wanted twice'}; choose another "
                    f"with {option(name)} (`ss -ltnp` says who has it)"
                )
            chosen[name] = wanted[name]
            continue
        ports = range(USUAL[name], USUAL[name] + _TRIES)
        free = (port for port in ports if port not in chosen.values() and port not in wanted.values())
        found = next((port for port in free if _why_not(host, port) is None), None)
        if found is None:
            raise StackError(
                f"no port from {ports[0]} to {ports[-1]} is free on {host}, for {name}: give one by {option(name)}"
            )
        chosen[name] = found
    return chosen


def _why_not(host: str, port: int) -> str | None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        # As the programs do: what is left of a connection that has ended is no hindrance.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            return error.strerror
    return None
