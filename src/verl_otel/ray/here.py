"""The cluster that this process is part of, asked without any of Ray's calls that would start one."""

import sys
from typing import Any


def is_connected() -> bool:
    """Whether this process is part of a cluster now."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def node() -> dict[str, Any]:
    """Ray's entry of the node that this process is on. Raises `LookupError` if there is none any more.

    `ray.get_runtime_context()` isn't asked: just after a shutdown it would start another cluster.
    """
    worker: Any = sys.modules["ray._private.worker"].global_worker
    here = worker.current_node_id.hex()
    for one in sys.modules["ray"].nodes():
        if one["NodeID"] == here:
            found: dict[str, Any] = one
            return found
    raise LookupError(here)
