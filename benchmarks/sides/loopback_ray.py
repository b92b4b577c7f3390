"""A real Ray of the benchmark's own, on loopback only, in a folder of its own."""

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

ENVIRONMENT: Final = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without this Ray turns 127.0.0.1 into the machine's own address, and all it starts listens there.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""To be set before Ray is imported."""


@contextmanager
def loopback_ray(**options: Any) -> Iterator[Any]:
    """`ray.init` on 127.0.0.1; raises `RuntimeError` if any of its processes listens elsewhere."""
    os.environ.update(ENVIRONMENT)
    import ray

    folder = tempfile.mkdtemp(prefix="vo-", dir="/tmp")  # a socket's path may have 107 bytes
    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=200_000_000,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
        **options,
    )
    try:
        if foreign := {host for host, _ in listening(folder) if not host.startswith(("127.", "::ffff:127.", "::1"))}:
            raise RuntimeError(f"Ray listens on {', '.join(sorted(foreign))}")
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def listening(folder: str) -> set[tuple[str, int]]:
    """Addresses that this process, what it started, and the processes of the Ray in `folder` listen on."""
    import psutil

    mine = {one.pid for one in psutil.Process().children(recursive=True)} | {os.getpid()}
    found: set[tuple[str, int]] = set()
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.info["pid"] in mine or folder in " ".join(process.info["cmdline"] or []):
            try:
                connections = process.net_connections("tcp")
            except psutil.Error:
                continue
            found |= {(one.laddr.ip, one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
