"""A driver: one span here, one below it in an actor on every node and in a task; what they are is printed as JSON.

usage: cluster_program.py [ADDRESS] [NODES]    without an address a cluster of its own, in a folder of its own
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import verl_otel

verl_otel.instrument()

import ray  # noqa: E402 - after instrument(), as a launcher does

from verl_otel import runtime  # noqa: E402


def record(name):
    with runtime.current().tracer.start_as_current_span(name):
        pass
    runtime.flush(10)
    return {
        "role": os.environ.get("VERL_OTEL_ROLE"),
        "run": os.environ.get("VERL_OTEL_RUN_ID"),
        "endpoint": os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
        "theirs": os.environ.get("THEIR_SETUP"),
        "node": ray.get_runtime_context().get_node_id(),
        "folder": Path.cwd().name,
    }


@ray.remote(num_cpus=0.1)
class Actor:
    def record(self, name):
        return record(name)


@ray.remote(num_cpus=0.1)
def task(name):
    return record(name)


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else ""
    nodes = sys.argv[2] if len(sys.argv) > 2 else "1"
    folder = tempfile.mkdtemp(prefix="vo-", dir="/tmp")
    own = {"num_cpus": 2, "include_dashboard": False, "_temp_dir": f"{folder}/r", "object_store_memory": 100_000_000}
    options = {"address": address} if address else own
    ray.init(**options, **({} if address.startswith("ray://") else {"_node_ip_address": "127.0.0.1"}))
    deadline = time.monotonic() + 60
    while sum(node["Alive"] for node in ray.nodes()) < int(nodes) and time.monotonic() < deadline:
        time.sleep(0.2)
    with runtime.current().tracer.start_as_current_span("driver"):
        actors = [Actor.options(**placed(node["NodeID"])).remote() for node in ray.nodes() if node["Alive"]]
        found = [*ray.get([one.record.remote("in an actor") for one in actors]), ray.get(task.remote("in a task"))]
    shown = str(ray.get_runtime_context().runtime_env)
    written = written_by_ray() if not address else ""
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
    print(
        "FOUND"
        + json.dumps(
            {
                "found": found,
                "shown": shown,
                "written": bool(written) and os.environ.get("LOOK_FOR", "\0 nothing") in written,
            }
        ),
        flush=True,
    )


def placed(node):
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def written_by_ray():
    """All that Ray has written of its session."""
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    texts = [path.read_text(errors="replace") for path in session.rglob("*") if path.is_file()]
    assert texts
    return "\n".join(texts)


if __name__ == "__main__":
    main()
