"""Pages in Prometheus' text format on this host, each read by the one process that holds its lock.

For what serves no other way: node_exporter, dcgm-exporter, npu-exporter, an engine's server, Ray's own metrics agent.
"""

import sys
from collections.abc import Iterator
from time import monotonic, time_ns
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.sdk.metrics.export import Metric

from verl_otel import semconv
from verl_otel.bridges import npus
from verl_otel.bridges.families import Series, metrics_of
from verl_otel.hardware.locks import Lock
from verl_otel.importing import importing
from verl_otel.ray import here

RAY: Final = "ray"
"""Stands for the metrics agent of Ray on each node."""
TIMEOUT: Final = 5.0
SGLANG_STARTS: Final = 300.0
"""Seconds in which its server is up."""
LARGEST: Final = 16 << 20
"""Bytes of a page."""


class PageError(ValueError):
    """A page that isn't one: its status, size or text is wrong."""


class Endpoint:
    """One page, by its URL or `ray`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock: Lock | None = None
        self._series = Series()
        self._since, self._began = monotonic(), time_ns()

    def read(self, time: int) -> Iterator[Metric]:
        """Its samples, if it is this process's to read, with its address on each.

        Raises `PageError` for what is no page, and what `requests` raises for one that doesn't answer.
        """
        if self._must_wait():
            return
        url = _ray_url() if self.url == RAY else self.url
        if self._lock is None:  # of Ray's the address: several clusters on a host have an agent each
            self._lock = Lock(f"scrape/{url}")
        if not self._lock.acquire():
            return
        with importing():
            from prometheus_client.parser import text_string_to_metric_families

        where = urlsplit(url)
        port = where.port or (443 if where.scheme == "https" else 80)
        labels = {semconv.SERVER_ADDRESS: where.hostname or "", semconv.SERVER_PORT: port}
        families = list(text_string_to_metric_families(_fetch(url)))
        yield from metrics_of(families, labels, time, self._series)
        yield from npus.as_hardware(families, self._began, time)

    def _must_wait(self) -> bool:
        """SGLang decides while it starts how prometheus_client keeps its values, and must be the first to import it."""
        may_start = "sglang" in sys.modules and "prometheus_client" not in sys.modules
        return may_start and monotonic() - self._since < SGLANG_STARTS

    def close(self) -> None:
        """Leave it to others."""
        if self._lock is not None:
            self._lock.release()


def _fetch(url: str) -> str:
    with importing():
        import requests

    with requests.Session() as session:
        session.trust_env = False  # a page of this host is behind no proxy
        accept = {"Accept": "text/plain;version=0.0.4"}
        with session.get(url, timeout=TIMEOUT, stream=True, headers=accept) as answer:
            if answer.status_code != 200:
                raise PageError(f"{url} answered {answer.status_code}")
            page = answer.raw.read(LARGEST + 1, decode_content=True)
    if len(page) > LARGEST:
        raise PageError(f"{url} has over {LARGEST} bytes")
    text: str = page.decode(errors="replace")
    return text


def _ray_url() -> str:
    """Of the agent on this node. Raises `PageError` where there is none."""
    if not here.is_connected():
        raise PageError("Ray isn't up in this process")
    node = here.node()
    if not node.get("MetricsExportPort"):
        raise PageError("Ray's metrics agent has no port on this node")
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
