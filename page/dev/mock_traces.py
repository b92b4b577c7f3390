"""Made traces of steps and trajectories, and what was said in one."""

from __future__ import annotations

import random
from typing import Any

import mock  # noqa: UP026 (the one beside this file)
from made import PHASES, Answer, Made, phase_seconds, step_times
from mock_trajectories import made_batch


def messages(made: Made, trace: str) -> Answer:
    if made.seed != 1:
        return {"messages": [], "tokens": None}
    words = [
        "The",
        "bat",
        "costs",
        "x",
        ",",
        "so",
        "x",
        "+",
        "1.00",
        "+",
        "x",
        "=",
        "1.10",
        "and",
        "x",
        "=",
        "0.05",
        ".",
        "<b>not",
        "html</b>",
    ]
    rng = random.Random(trace)  # noqa: S311
    tokens = [
        {"text": f"{word} ", "difference": None if n % 17 == 9 else rng.gauss(0, 0.3) * (4 if n % 29 == 3 else 1)}
        for n, word in enumerate(words * 8)
    ]
    return {
        "messages": [
            {
                "role": "user",
                "text": "A bat and a ball cost 1.10. The bat costs 1.00 more than the ball. How much is the ball?",
            },
            {"role": "assistant", "text": " ".join(words)},
            {"role": "tool", "text": '{"result": 0.05}'},
        ],
        "tokens": tokens,
    }


def trace(made: Made, trace: str, query: mock.Query) -> Answer:
    """Of a step (its number as the trace's id) or of a trajectory (the step in front)."""
    step, n = int(trace[:8], 16), int(trace[8:], 16)
    return step_trace(made, trace, n, query) if step == 0 else one_trace(made, trace, step, n)


def span(
    trace: str, number: int, parent: str | None, name: str, start: float, end: float, depth: int, **more: Any
) -> Answer:
    return {
        "span": f"{number:016x}",
        "parent": parent,
        "name": name,
        "start": start,
        "end": end,
        "error": False,
        "message": None,
        "role": None,
        "rank": None,
        "host": "node-00",
        "process": "TaskRunner 4711",
        "depth": depth,
        "folded": None,
        "attributes": {"verl.step": 1},
        "events": [],
        **more,
    }


def step_trace(made: Made, trace: str, step: int, query: mock.Query) -> Answer:
    begin, end = step_times(made, mock.NOW)[min(made.steps, max(1, step)) - 1]
    whole = sum(phase_seconds(made, phase, step - 1) or 0 for phase in PHASES) + 5
    scale = (end - begin) / whole
    spans = [span(trace, 1, None, "verl.step", begin, end, 0)]
    critical, at, skewed = [spans[0]["span"]], begin, []
    for phase in PHASES:
        took = (phase_seconds(made, phase, step - 1) or 0) * scale
        node = span(
            trace,
            len(spans) + 1,
            spans[0]["span"],
            f"verl.phase.{phase}",
            at,
            at + took,
            1,
            attributes={"verl.phase": phase, "verl.step": step, "verl.epoch": 0},
        )
        spans.append(node)
        critical.append(node["span"])
        if phase in ("old_log_prob", "ref", "update_actor"):
            for rank in range(8):
                slow = 0.99 if rank == 3 else 0.7 + rank / 60
                worker = span(
                    trace,
                    len(spans) + 1,
                    node["span"],
                    f"verl.worker.{phase}",
                    at + 20,
                    at + took * slow,
                    2,
                    role="actor",
                    rank=rank,
                    host=f"node-0{rank // 4}",
                    folded=128 if rank == 7 else None,
                    attributes={"verl.phase": phase, "verl.rank": rank},
                )
                spans.append(worker)
                if rank == 3:
                    critical.append(worker["span"])
                if rank == 5 and query.get("skew", ["on"])[0] == "on":
                    skewed.append({"span": worker["span"], "by_s": -0.42})
                for micro in range(30):
                    spans.append(
                        span(
                            trace,
                            len(spans) + 1,
                            worker["span"],
                            "verl.worker.micro_batch",
                            at + took * slow * micro / 30,
                            at + took * slow * (micro + 0.9) / 30,
                            3,
                            role="actor",
                            rank=rank,
                        )
                    )
        at += took
    linked = [
        {
            "trace": f"{step:08x}{n:024x}",
            "span": f"{n:016x}",
            "name": f"invoke_agent tool_agent {n}",
            "direction": "from",
        }
        for n in range(40)
    ]
    return {
        "trace": trace,
        "name": f"verl.step {step}",
        "start": begin,
        "end": end,
        "total": len(spans) + 6000,
        "spans": spans,
        "critical": critical,
        "skewed": skewed,
        "truncated": True,
        "linked": linked,
    }


def one_trace(made: Made, trace: str, step: int, n: int) -> Answer:
    row = made_batch(made.id, step)[n]
    root = span(
        trace,
        n,
        None,
        "invoke_agent tool_agent",
        row["start"],
        row["end"],
        0,
        role="agent",
        error=row["outcome"] == "failed",
        message="RuntimeError: the session ended" if row["outcome"] == "failed" else None,
        attributes={
            "verl.sample.uid": row["uid"],
            "verl.reward": row["reward"],
            "verl.rollout.turns": row["turns"],
            "gen_ai.input.messages": '[{"role": "user", "content": "<script>alert(1)</script>"}]',
            "verl.rollout.consumed": ["a", "b"],
        },
    )
    spans, critical = [root], [root["span"]]
    names = {
        "queue": "verl.queue.wait",
        "gate": "verl.queue.gate",
        "model": "chat",
        "tool": "execute_tool search",
        "reward": "verl.reward",
    }
    for part in row["parts"]:
        node = span(
            trace,
            10_000 + len(spans),
            root["span"],
            names[part["kind"]],
            part["start"],
            part["end"],
            1,
            error=part["error"],
            message="TimeoutError: no answer in 60 s" if part["error"] else None,
            role="agent",
            attributes={"gen_ai.usage.output_tokens": 311},
            events=[{"time": part["start"] + 5, "name": "gen_ai.choice", "attributes": {"index": 0}}]
            if part["kind"] == "model"
            else [],
        )
        spans.append(node)
        critical.append(node["span"])
        if part["kind"] == "model":
            spans.append(
                span(
                    trace,
                    20_000 + len(spans),
                    node["span"],
                    "verl.engine.generate",
                    part["start"] + 4,
                    part["end"] - 4,
                    2,
                    role="rollout",
                    host="node-02",
                )
            )
    spans.append(span(trace, 30_000, "f" * 16, "verl.queue.async_kv_batch_put", row["end"] - 50, row["end"], 1))
    return {
        "trace": trace,
        "name": root["name"],
        "start": row["start"],
        "end": row["end"],
        "total": len(spans),
        "spans": spans,
        "critical": critical,
        "skewed": [],
        "truncated": False,
        "linked": [{"trace": f"{step:032x}", "span": f"{1:016x}", "name": f"verl.step {step}", "direction": "to"}],
    }
