"""The cluster that is up: on every node, whether the package is there, what its clock says, and what it can reach.

No cluster is started: with a local `ray.init` the workers are on this host, and have this environment.
"""

import logging
import os
import time
from collections.abc import Iterator
from typing import Any, Final

from verl_otel.doctor.endpoint import MOST_SKEW
from verl_otel.doctor.findings import Finding, State
from verl_otel.ray import reach
from verl_otel.settings import PREFIX
from verl_otel.version import __version__

_LINK: Final = "nodes"
_PATIENCE: Final = 60.0


def check(address: str | None) -> Iterator[Finding]:
    """One finding after the other from each node of the cluster at `address` (RAY_ADDRESS if None)."""
    address = address or os.environ.get("RAY_ADDRESS")
    if address is None:
        yield Finding(
            _LINK, "Ray", State.NOTE, "no cluster named: workers of a local ray.init are on this host",
            "for a cluster that is up, give --address or RAY_ADDRESS",
        )  # fmt: skip
        return
    try:
        import ray
    except ImportError:
        yield Finding(_LINK, "Ray", State.FAILED, "not installed", "run this in verl's environment")
        return
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, runtime_env=reach.reaching(None))
    except Exception as error:  # noqa: BLE001 - whatever Ray raises is the answer
        yield Finding(_LINK, address, State.FAILED, f"{type(error).__name__}: {error}"[:300], "is the cluster up?")
        return
    try:
        yield from _each(ray)
    finally:
        ray.shutdown()


def _each(ray: Any) -> Iterator[Finding]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    kind = ray.remote(num_cpus=0)(_Witness)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    placed = {one: NodeAffinitySchedulingStrategy(one, soft=False) for one in nodes}
    witnesses = {one: kind.options(scheduling_strategy=where).remote() for one, where in placed.items()}
    for node, witness in witnesses.items():
        name = f"node {node[:8]}"
        try:
            found = ray.get(witness.look.remote(), timeout=_PATIENCE)
            skew = min((_compare_clocks(ray, witness) for _ in range(5)), key=lambda one: one[1])[0]
        except Exception as error:  # noqa: BLE001 - as above
            detail = f"{type(error).__name__}: {str(error).splitlines()[-1][:200]}"
            yield Finding(_LINK, name, State.FAILED, detail, f"install verl-otel {__version__} on that node, as here")
            continue
        yield from _judge(name, found, skew)


def _compare_clocks(ray: Any, witness: Any) -> tuple[float, float]:
    """(seconds that its clock is ahead, seconds that asking took)."""
    before = time.time()
    there = ray.get(witness.clock.remote(), timeout=_PATIENCE)
    after = time.time()
    return there - (before + after) / 2, after - before


def _judge(name: str, found: dict[str, Any], skew: float) -> Iterator[Finding]:
    if found["version"] != __version__:
        detail = f"verl-otel {found['version']} there, {__version__} here"
        yield Finding(_LINK, name, State.WARNING, detail, "install the same version everywhere")
    elif not found["reached"]:
        detail = "a worker there is not instrumented"
        yield Finding(_LINK, name, State.FAILED, detail, "is a worker_process_setup_hook of your own set?")
    else:
        yield Finding(_LINK, name, State.OK, f"{found['host']}: instrumented")
    if abs(skew) > MOST_SKEW:
        remedy = "set the clocks by NTP: traces of several hosts are joined by time"
        yield Finding(_LINK, f"{name} clock", State.WARNING, f"{skew:+.1f} s", remedy)
    for one in found["endpoint"]:
        yield Finding(_LINK, f"{name} {one[0]}", State(one[1]), one[2], one[3])


class _Witness:
    """An actor on a node: what its process is, what time it has, and the endpoint as it is seen from there."""

    def clock(self) -> float:
        return time.time()

    def look(self) -> dict[str, Any]:
        from verl_otel.doctor import endpoint

        return {
            "version": __version__,
            "reached": reach.in_ray_worker() and os.environ.get(f"{PREFIX}ROLE") == "worker",
            "host": os.uname().nodename,
            "endpoint": [(one.name, one.state.value, one.detail, one.remedy) for one in endpoint.check()],
        }
