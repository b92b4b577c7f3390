"""A big fleet whose data is made up, to try the page with: nobody measured any of it, and it says so.

The same size and end give the same bytes.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.fleet import gauges, rollouts, scalars, steps
from verl_otel.local.fleet.cast import NAME, RUN_ID, SECOND, TRAINER, Fleet
from verl_otel.local.fleet.messages import Batch, Request

__all__ = ["NAME", "RUN_ID", "Fleet", "requests"]

_ABOUT: Final[dict[str, Any]] = {
    semconv.RUN_PROJECT: "verl-otel",
    semconv.RUN_EXPERIMENT: NAME,
    semconv.RUN_ALGORITHM: "grpo",
    semconv.RUN_MODEL: "made/policy-32b",
    semconv.RUN_TRAINER: "v1/separate_async",
    semconv.RUN_ENGINE: "vllm",
    semconv.RUN_VERSION + "verl": "0.9.1",
}


def requests(end: int, fleet: Fleet | None = None) -> Iterator[Request]:
    """OTLP requests (signal, protobuf) of a whole run that ends then (ns since the epoch), the old before the new."""
    fleet = fleet or Fleet()
    batch = Batch(fleet.processes)
    every = steps.schedule(fleet, end - 5 * SECOND)
    detailed = every[fleet.history :]
    config = json.dumps(_configuration(fleet))
    yield batch.event(TRAINER, semconv.EVENT_RUN_START, every[0].start, {**_ABOUT, semconv.RUN_CONFIG: config})
    batch.point(TRAINER, (semconv.RUN_INFO.name, ""), every[0].start, 1.0, _ABOUT)
    yield from scalars.of_steps(fleet, batch, every)
    made = {
        step.number: rollouts.of_step(fleet, step, before)
        for before, step in zip([None, *detailed], detailed, strict=False)
    }
    consumed = {number: [(f"{one.uid}_{one.session}_0", *one.ids) for one in theirs] for number, theirs in made.items()}
    yield from steps.of_trainer(batch, every, consumed)
    for step in detailed:
        yield from steps.of_ranks(fleet, batch, step)
        yield from rollouts.spans(fleet, batch, step, made[step.number])
        yield from rollouts.of_replicas(fleet, batch, step)
        yield from gauges.of_step(fleet, batch, step, made[step.number])
    yield from gauges.of_fleet(fleet, batch, detailed)
    batch.point(TRAINER, (semconv.RUN_ENDED.name, ""), end, 1.0, {semconv.RUN_OUTCOME: "finished"})
    yield from batch.take()
    yield batch.event(TRAINER, semconv.EVENT_RUN_END, end, {**_ABOUT, semconv.RUN_OUTCOME: "finished"})


def _configuration(fleet: Fleet) -> dict[str, Any]:
    return {
        "made": "nobody ran this",
        "trainer": {
            "total_training_steps": fleet.history + fleet.steps,
            "n_gpus_per_node": 8,
            "nnodes": fleet.ranks // 8,
        },
        "data": {"train_batch_size": fleet.groups, "max_response_length": 8192},
        "actor_rollout_ref": {"rollout": {"n": fleet.sessions, "name": "vllm"}, "actor": {"optim": {"lr": 1e-6}}},
    }
