"""What the made fleet's GPUs, engines and processes tell between steps."""

from collections.abc import Iterator
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.fleet.cast import GPUS_OF_A_HOST, SECOND, TRAINER, Fleet, agent_name, rank_name, replica_name
from verl_otel.local.fleet.messages import Batch, Request, identity
from verl_otel.local.fleet.rollouts import Trajectory
from verl_otel.local.fleet.steps import Step
from verl_otel.semconv import hardware

_EVERY: Final = 120 * SECOND
_GIB: Final = 1 << 30
_ENGINE: Final = "prometheus_client"
"""Scope of what engines tell by their own names."""


def of_fleet(fleet: Fleet, batch: Batch, steps: list[Step]) -> Iterator[Request]:
    """Everything at every second minute of these steps."""
    for place, time in enumerate(range(steps[0].start, steps[-1].end, _EVERY)):
        step = next(one for one in steps if time < one.end)
        _gpus(fleet, batch, step, place, time)
        _engines(fleet, batch, step, place, time)
        if place % 10 == 0:
            _processes(fleet, batch, place, time)
        yield from batch.take()


def of_step(fleet: Fleet, batch: Batch, step: Step, made: list[Trajectory]) -> Iterator[Request]:
    """What is computed of a step when it ends."""
    chance = fleet.chance("computed", step.number)
    update = step.phase("update_actor")
    gap = 0.13 * (update.end - update.start) / SECOND
    labels = {semconv.PHASE: "update_actor", semconv.ROLE: "actor"}
    batch.point(TRAINER, _named(semconv.STRAGGLER_GAP), step.end, gap, labels)
    batch.point(TRAINER, _named(semconv.STRAGGLER_RANK), step.end, fleet.slow_rank, labels)
    groups: dict[int, list[float]] = {}
    for one in made:
        groups.setdefault(one.group, []).append(one.reward)
    right = sum(min(rewards) == 1.0 for rewards in groups.values())
    wrong = sum(max(rewards) == min(rewards) < 1.0 for rewards in groups.values())
    for signal, count in (("all_right", right), ("all_wrong", wrong)):
        share = count / max(1, len(groups))
        batch.point(TRAINER, _named(semconv.GROUP_ZERO_VARIANCE), step.end, share, {semconv.GROUP_SIGNAL: signal})
    tokens = 1900 + chance.gauss(0, 40)
    for kind, factor in (("effective", 1.0), ("trainer", 2.1), ("rollout", 1.6)):
        batch.point(TRAINER, _named(semconv.STEP_GPU_THROUGHPUT), step.end, tokens * factor, {semconv.THROUGHPUT: kind})
    staleness = [float(step.number - 1 - one.oldest) for one in made]
    batch.histogram(TRAINER, semconv.ROLLOUT_STALENESS, step.end, staleness, {semconv.VALIDATION: False})
    batch.point(TRAINER, _named(semconv.ROLLOUT_RATE), step.end, len(groups) / 40, {semconv.VALIDATION: False})
    yield from batch.take()


def _gpus(fleet: Fleet, batch: Batch, step: Step, place: int, time: int) -> None:
    phase = next((one for one in step.phases if one.start <= time < one.end), None)
    usual = 0.06 if phase is None or phase.method is None else 0.96
    for rank in range(fleet.ranks):
        chance = fleet.chance("gpu", rank, place)
        share = min(1.0, max(0.0, usual + chance.gauss(0, 0.02)))
        # A node's first process tells of all its GPUs.
        teller = rank_name(rank - rank % GPUS_OF_A_HOST)
        index = rank % GPUS_OF_A_HOST
        gpu: dict[str, Any] = {
            hardware.HW_ID: f"GPU-{identity('gpu', rank, size=8).hex()}",
            hardware.HW_TYPE: hardware.GPU,
            hardware.GPU_INDEX: index,
        }
        watts = 120 + 560 * share + chance.gauss(0, 8)
        heat = 38 + 36 * share + (9 if rank == fleet.slow_rank else 0) + chance.gauss(0, 1)
        for metric, value in (
            (hardware.GPU_UTILIZATION, share),
            (hardware.GPU_MEMORY_UTILIZATION, 0.78 + 0.02 * share),
            (hardware.POWER, watts),
            (hardware.TEMPERATURE, heat),
        ):
            batch.point(teller, _named(metric), time, value, gpu)
        for state, is_in in (("ok", 1.0), ("failed", 0.0)):
            batch.point(teller, _named(hardware.STATUS), time, is_in, {**gpu, hardware.HW_STATE: state})


def _engines(fleet: Fleet, batch: Batch, step: Step, place: int, time: int) -> None:
    sync = step.phase("update_weights")
    for replica in range(fleet.replicas):
        chance = fleet.chance("engine", replica, place)
        is_idle = replica == fleet.idle_replica or sync.start <= time < sync.end
        running = 0 if is_idle else chance.randint(6, 30)
        who = {semconv.ROLE: "rollout", semconv.REPLICA: replica}
        ours = {**who, semconv.GEN_AI_PROVIDER_NAME: "vllm"}
        engine = {"model_name": "made/policy-32b", "engine": "0", **who}
        name = replica_name(replica)
        for metric, value in (
            ("vllm:num_requests_running", float(running)),
            ("vllm:num_requests_waiting", float(max(0, running - 24))),
            ("vllm:kv_cache_usage_perc", min(0.98, running / 32)),
        ):
            batch.point(name, (metric, ""), time, value, engine, scope=_ENGINE)
        totals = (("vllm:generation_tokens_total", 95_000.0), ("vllm:prompt_tokens_total", 61_000.0))
        for metric, by_then in totals:
            batch.point(name, (metric, ""), time, by_then * (place + 1), engine, scope=_ENGINE, total=True)
        idle = 0.68 if replica == fleet.idle_replica else min(1.0, abs(chance.gauss(0.07, 0.04)))
        batch.point(name, _named(semconv.REPLICA_IDLE), time, idle, ours)
        batch.point(name, _named(semconv.REPLICA_WEIGHTS), time, step.number - 1, ours)
        running_state = {**ours, semconv.ENGINE_STATE: "running"}
        batch.point(name, _named(semconv.ENGINE_IN_FLIGHT), time, float(running), running_state)


def _processes(fleet: Fleet, batch: Batch, place: int, time: int) -> None:
    """By these the backend knows what a process is."""
    metric = _named(hardware.PROCESS_MEMORY)
    batch.point(TRAINER, metric, time, 6.0 * _GIB, {semconv.ROLE: "trainer"}, total=True)
    for rank in range(fleet.ranks):
        size = (14 + 0.02 * place) * _GIB
        batch.point(rank_name(rank), metric, time, size, {semconv.ROLE: "actor", semconv.RANK: rank}, total=True)
    for replica in range(fleet.replicas):
        told = {semconv.ROLE: "rollout", semconv.REPLICA: replica}
        batch.point(replica_name(replica), metric, time, 9.0 * _GIB, told, total=True)
    for agent in range(fleet.agents):
        batch.point(agent_name(agent), metric, time, 2.0 * _GIB, {semconv.ROLE: "agent_loop"}, total=True)


def _named(metric: semconv.MetricName) -> tuple[str, str]:
    return metric.name, metric.unit
