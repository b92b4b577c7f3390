"""The stand-in's answers for timeline, batch, trace, rollouts, engine, hardware and pipeline.

`python page/dev/mock_views.py [port]` serves them beside those of `mock.py`. The run `ppo-math-14b-0410` has 1,024
ranks, `sweep-000` 64 trajectories a step, the others 1,024.
"""

from __future__ import annotations

import base64
import random
import sys
from functools import cache
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parent))
import mock  # noqa: UP026 (the one beside this file)
from made import BY_ID, PHASES, Answer, Made, phase_seconds, step_times
from mock import NOW, Query  # noqa: UP026
from mock_panels import panels, profiles
from mock_traces import messages, trace
from mock_trajectories import batch, groups, signal, tools, trajectories

STATES = ["", "idle", "waiting", *PHASES, "save_checkpoint", "error"]


def ranks(made: Made) -> int:
    return 1024 if made.seed == 4 else 8 if made.steps > 1 else 2


def lanes(made: Made) -> list[Answer]:
    count, replicas = ranks(made), max(2, ranks(made) // 8)
    rng = random.Random(made.seed)  # noqa: S311
    found = [lane("trainer", "trainer", "node-00", None, None, None, 0.02, 0)]
    for rank in range(count):
        slow = rank % 61 == 3
        found.append(
            lane(
                f"actor/{rank}",
                "rank",
                f"node-{rank // 8:02d}",
                "actor",
                rank,
                None,
                0.41 + 0.1 * rng.random(),
                2 if rank == 3 else 0,
                6.2 if slow else rng.gauss(0, 0.2),
            )
        )
    return found + [
        lane(f"replica/{n}", "replica", f"node-{n:02d}", "rollout", None, n, 0.38 + 0.2 * rng.random(), 0)
        for n in range(replicas)
    ]


def lane(
    name: str,
    kind: str,
    host: str,
    role: str | None,
    rank: int | None,
    replica: int | None,
    idle: float,
    errors: int,
    gap: float | None = None,
) -> Answer:
    return {
        "lane": name,
        "kind": kind,
        "host": host,
        "role": role,
        "rank": rank,
        "replica": replica,
        "gap_s": gap,
        "idle": idle,
        "errors": errors,
    }


@cache
def _step(run: str, index: int) -> tuple[float, float, dict[str, float]]:
    made = BY_ID[run]
    begin, end = step_times(made, NOW)[index]
    seconds = {phase: phase_seconds(made, phase, index) or 0 for phase in PHASES}
    scale = (end - begin) / (sum(seconds.values()) + 5)
    return begin, end, {phase: value * scale for phase, value in seconds.items()}


def pieces(made: Made, lane: Answer, index: int) -> list[tuple[float, float, str]]:
    """What a lane did in a step (from 0): (from, to, state), in ms."""
    begin, _, phases = _step(made.id, index)
    found, at = [], begin
    luck = ((lane["rank"] or lane["replica"] or 0) * 7919 + index * 104_729) % 997 / 997
    for phase in PHASES:
        took = phases[phase]
        if lane["kind"] == "trainer":
            found.append((at, at + took, phase))
        elif lane["kind"] == "rank" and phase in ("old_log_prob", "ref", "update_actor", "update_weights"):
            share = 0.99 if (lane["rank"] or 0) % 61 == 3 else 0.72 + 0.13 * luck
            found += [(at, at + took * share, phase), (at + took * share, at + took, "waiting")]
        elif lane["kind"] == "replica" and phase == "gen":
            busy = 0.6 + 0.4 * luck
            found += [(at, at + took * busy, "gen"), (at + took * busy, at + took, "idle")]
        elif lane["kind"] == "replica" and phase == "update_weights":
            found.append((at, at + took, phase))
        else:
            found.append((at, at + took, "idle"))
        at += took
    if lane["errors"] and index % 50 == 40:
        found.append((begin + 1000, begin + 9000, "error"))
    return found


def timeline(made: Made, query: Query) -> Answer:
    times = step_times(made, NOW)
    low = float(query.get("from", [times[0][0] if times else NOW])[0])
    high = float(query.get("to", [times[-1][1] if times else NOW])[0])
    width = int(query.get("width", ["1200"])[0])
    return {**_timeline(made.id, low, high, width), "rev": mock.rev(made)}


@cache
def _timeline(run: str, low: float, high: float, width: int) -> Answer:
    made = BY_ID[run]
    times = step_times(made, NOW)
    rows = lanes(made) if times else []
    inside = [i for i, (begin, end) in enumerate(times) if end > low and begin < high]
    answer: Answer = {
        "from": low,
        "to": high,
        "width": width,
        "lanes": rows,
        "total_lanes": len(rows),
        "states": STATES,
        "cells": None,
        "counts_max": None,
        "spans": None,
        "composition": None,
    }
    if len(inside) * len(rows) < 120:
        answer["spans"] = [
            one
            for index in inside
            for row, lane in enumerate(rows)
            for one in spans(made, lane, row, index)
            if one["end"] > low and one["start"] < high
        ][:20_000]
        return answer
    cells = bytearray(len(rows) * width)
    column = (high - low) / width
    stride = max(1, len(inside) // width)
    for row, lane in enumerate(rows):
        for index in inside[::stride]:
            for begin, end, state in pieces(made, lane, index):
                first, last = (
                    max(0, int((begin - low) / column)),
                    min(width, max(int((end - low) / column), int((begin - low) / column) + 1)),
                )
                if last > first:
                    cells[row * width + first : row * width + last] = bytes([STATES.index(state)]) * (last - first)
    answer["cells"] = base64.b64encode(bytes(cells)).decode()
    return answer


def spans(made: Made, lane: Answer, row: int, index: int) -> list[Answer]:
    found = []
    rng = random.Random(f"{lane['lane']}/{index}/spans")  # noqa: S311
    for n, (begin, end, state) in enumerate(pieces(made, lane, index)):
        if state in ("idle", "waiting"):
            continue
        many = 40 if lane["kind"] == "replica" and state == "gen" else 1
        for m in range(many):
            start = begin if many == 1 else begin + (end - begin) * rng.uniform(0, 0.85)
            stop = end if many == 1 else min(end, start + (end - begin) * rng.expovariate(12))
            found.append(
                {
                    "row": row,
                    "start": start,
                    "end": stop,
                    "state": "gen" if state == "error" else state,
                    "name": "verl.engine.generate" if many > 1 else f"verl.worker.{state}",
                    "step": index + 1,
                    "weights": index - rng.randrange(3) if many > 1 else index,
                    "error": state == "error" or (many > 1 and m == 7),
                    "trace": f"{index + 1:032x}",
                    "span": f"{row:08x}{n:04x}{m:04x}",
                }
            )
    return found


def stragglers(made: Made, query: Query) -> Answer:
    low, high = float(query.get("from", ["1"])[0]), float(query.get("to", [str(made.steps)])[0])
    steps = [step for step in range(1, made.steps + 1) if low <= step <= high]
    count = ranks(made) if steps else 0
    hosts = [f"node-{rank // 8:02d}" for rank in range(count)]
    found = []
    for phase in ("update_actor", "old_log_prob", "ref", "update_weights"):
        rng = random.Random(phase)  # noqa: S311
        over = [
            rng.gauss(0, 0.15) + (3.1 if rank % 61 == 3 and phase == "update_actor" else 0) for rank in range(count)
        ]
        order = sorted(range(count), key=lambda rank: -over[rank])[:5]
        found.append(
            {
                "phase": phase,
                "ranks": list(range(count)),
                "hosts": hosts,
                "median_s": PHASES[phase][0],
                "over_s": over,
                "worst": [{"rank": rank, "host": hosts[rank], "over_s": over[rank], "steps": 12} for rank in order],
            }
        )
    rng = random.Random(made.id)  # noqa: S311
    shown = steps[-400:]
    values = [
        [
            None
            if rank == 5 and step % 40 < 4
            else rng.gauss(0, 0.3)
            + (2.8 if rank % 61 == 3 else 0)
            + (1.5 if hosts[rank] == "node-01" and step > 200 else 0)
            for step in shown
        ]
        for rank in range(count)
    ]
    heat = (
        {"phase": "update_actor", "steps": shown, "ranks": list(range(count)), "values": values}
        if count > 1 and len(shown) > 1
        else None
    )
    return {"phases": found if count else [], "heat": heat}


mock.ANSWERS.update(
    {
        "timeline": timeline,
        "stragglers": stragglers,
        "batch": batch,
        "trajectories": trajectories,
        "groups": groups,
        "signal": signal,
        "tools": tools,
        "profiles": profiles,
        "engine": lambda made, _: panels(made, "engine"),
        "hardware": lambda made, _: panels(made, "hardware"),
        "pipeline": lambda made, _: panels(made, "pipeline"),
    }
)


class Handler(mock.Handler):
    def api(self, path: str, query: Query) -> None:
        _, _, _, *rest = path.split("/")
        made = BY_ID.get(unquote(rest[0])) if rest else None
        if made and len(rest) == 3 and rest[1] == "trace":
            return self.json(200, trace(made, rest[2], query))
        if made and len(rest) == 4 and rest[1] == "messages":
            return self.json(200, messages(made, rest[2]))
        return super().api(path, query)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8124), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/\n")
    sys.stdout.flush()
    server.serve_forever()
