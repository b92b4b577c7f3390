"""Made panels of engines, hardware and pipeline, with a gap, a threshold and one that nobody told of."""

from __future__ import annotations

import math

import mock  # noqa: UP026 (the one beside this file)
from made import Answer, Made, step_times
from mock import NOW, Query  # noqa: UP026


def panels(made: Made, which: str) -> Answer:
    times = [end for _, end in step_times(made, NOW)]

    def wave(base: float, size: float, shift: float) -> list[float | None]:
        return [None if 100 <= i < 108 else base + size * math.sin(i / 7 + shift) for i in range(len(times))]

    replicas = {f"replica {n}": wave(18, 9, n) for n in range(16 if made.seed == 1 else 4)}
    shown: list[tuple[str, str, str, str, dict[str, list[float | None]], float | None, str | None]] = {
        "engine": [
            (
                "running",
                "Are replicas evenly loaded?",
                "Good: close together. One far above is overloaded, one at 0 starved.",
                "{request}",
                replicas,
                None,
                None,
            ),
            (
                "kv",
                "Is the KV cache full?",
                "Good: below 95 %. Above it, requests are preempted and begin again.",
                "1",
                {"replica 0": wave(0.7, 0.2, 0), "replica 1": wave(0.6, 0.3, 1)},
                0.95,
                None,
            ),
            (
                "ttft",
                "How long until the first token?",
                "Good: flat, far below the whole request.",
                "s",
                {"p50": wave(0.3, 0.1, 0), "p95": wave(0.9, 0.4, 0)},
                None,
                None,
            ),
            (
                "preemptions",
                "Is anything preempted?",
                "Good: none.",
                "{request}",
                {},
                None,
                "The engine told of no preemptions: disable_log_stats is on.",
            ),
        ],
        "hardware": [
            (
                "util",
                "Do the GPUs work?",
                "Good: high in update and gen.",
                "1",
                {f"node-{n:02d}": wave(0.6, 0.3, n) for n in range(2)},
                None,
                None,
            ),
            (
                "memory",
                "Is memory near its limit?",
                "Good: below 95 %.",
                "By",
                {f"node-{n:02d}": wave(70e9, 5e9, n) for n in range(2)},
                80e9,
                None,
            ),
            (
                "power",
                "Is power capped?",
                "Good: below the limit.",
                "W",
                {f"node-{n:02d}": wave(520, 120, n) for n in range(2)},
                700,
                None,
            ),
            (
                "temperature",
                "Is a chip hot?",
                "Good: below 85 °C.",
                "Cel",
                {f"node-{n:02d}": wave(66, 6, n) for n in range(2)},
                85,
                None,
            ),
        ],
        "pipeline": [
            (
                "waits",
                "Who waits for whom?",
                "Good: both low.",
                "1",
                {"trainer idle": wave(0.35, 0.2, 0), "rollout idle": wave(0.5, 0.2, 2)},
                None,
                None,
            )
        ],
    }[which]
    states = ["ok", "ok", "ok", "throttled: power", "ok", "ok", "uncorrected ECC errors", "not told"]
    tables = {
        "engine": [
            {
                "title": "The replicas under most pressure",
                "columns": ["replica", "host", "running", "waiting", "KV cache", "preemptions"],
                "rows": [[f"replica {n}", f"node-{n:02d}", 31 - n, n, 0.97 - n / 30, None] for n in range(6)],
            }
        ],
        "hardware": [
            {
                "title": "GPUs",
                "columns": ["host", "gpu", "state", "temperature (°C)", "power (W)", "memory (GiB)", "lane"],
                "rows": [
                    [
                        f"node-{host:02d}",
                        f"GPU {n}",
                        states[n] if host == 1 else "ok",
                        60 + n,
                        500.0 + n,
                        61.2,
                        f"actor/{host * 8 + n}",
                    ]
                    for host in range(4)
                    for n in range(8)
                ],
            },
            {
                "title": "Hosts",
                "columns": ["host", "memory", "OOM kills"],
                "rows": [[f"node-{host:02d}", 0.4, 0 if host else None] for host in range(4)],
            },
        ],
    }.get(which, [])
    return {
        "panels": [
            {
                "id": id_,
                "title": title,
                "good": good,
                "unit": unit,
                "x": times,
                "lines": [{"name": name, "ys": ys} for name, ys in lines.items()],
                "threshold": limit,
                "why_empty": why,
            }
            for id_, title, good, unit, lines, limit, why in shown
        ]
        if times
        else [],
        "rows": tables if times else [],
        "rev": mock.rev(made),
    }


def profiles(made: Made, _: Query) -> Answer:
    files = [
        {
            "tool": "torch",
            "path": f"/data/profiles/step_{step}/actor_rank{rank}.json.gz",
            "step": step,
            "rank": rank,
            "role": "actor",
            "bytes": 42_000_000,
            "mergeable": True,
        }
        for step in (3, 120)
        for rank in range(8)
    ]
    return {"files": files if made.seed == 1 else []}
