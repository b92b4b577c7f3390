"""The stand-in's list of runs and overview."""

from __future__ import annotations

import time

from made import HOUR, NOW, Answer, Made, Query, rev, scalars, started


def run(made: Made) -> Answer:
    values = scalars(made.id)["critic/score/mean"]
    stride = max(1, len(values) // 60)
    over = made.status != "running"
    begin = started(made, NOW)
    end = begin + made.age * HOUR / 2 if over else None
    return {
        "id": made.id,
        "project": "gsm8k" if made.seed < 20 else "sweep",
        "experiment": made.id if made.seed < 20 else None,
        "status": made.status,
        "step": made.steps or None,
        "total_steps": made.total,
        "started": begin,
        "updated": end or time.time() * 1000 - 3500,
        "ended": end,
        "host": f"node-{made.seed % 4:02d}",
        "attempts": made.attempts,
        "algorithm": "grpo",
        "model": made.model,
        "engine": "vllm 0.21",
        "trainer": "fsdp",
        "reward": {"key": "critic/score/mean", "points": [[i + 1, values[i]] for i in range(0, len(values), stride)]}
        if values
        else None,
        "bytes": 4_000_000 + made.steps * 180_000,
        "demo": True,
        "rev": rev(made),
    }


def overview(made: Made, _: Query) -> Answer:
    running, failed = made.status == "running", made.status == "failed"
    open_phases = [
        {
            "name": "gen",
            "role": "trainer",
            "rank": None,
            "open_s": 38.0,
            "median_s": 52.0,
            "p95_s": 81.0,
            "stuck": False,
        },
        {
            "name": "generate_sequences",
            "role": "rollout",
            "rank": 3,
            "open_s": 412.0,
            "median_s": 50.0,
            "p95_s": 79.0,
            "stuck": True,
        },
        {
            "name": "testing",
            "role": "trainer",
            "rank": None,
            "open_s": 12.0,
            "median_s": None,
            "p95_s": None,
            "stuck": False,
        },
    ]
    return {
        "run": run(made),
        "phases_open": open_phases if running and made.steps > 1 else [],
        "progress": {
            "validation": False,
            "expected": 1024,
            "pending": 96,
            "running": 211,
            "done": 712,
            "failed": 5,
            "rate": 18.4,
            "left_s": 16.9,
            "oldest_s": 74.0,
            "waits_for": "tool",
        }
        if running and made.steps > 1
        else None,
        "failure": {
            "time": NOW - 3_600_000,
            "type": "torch.OutOfMemoryError",
            "message": "CUDA out of memory. Tried to allocate 2.31 GiB. GPU 3 has 79.11 GiB of which 1.02 GiB is free.",
            "phase": "update_actor",
            "role": "actor",
            "rank": 3,
            "host": "node-03",
            "step": 121,
            "trace": "ab" * 16,
            "span": "cd" * 8,
        }
        if failed
        else None,
        "alerts": [
            {
                "name": "VerlKlBlowsUp",
                "severity": "critical",
                "summary": "KL of an update is 0.131 nat, far above its last hour",
                "since": NOW - 600_000,
                "runbook": "docs/alerts.md#verlklblowsup",
            },
            {
                "name": "VerlClipsMuch",
                "severity": "warning",
                "summary": "31 % of the tokens are clipped",
                "since": NOW - 300_000,
                "runbook": "docs/alerts.md#verlclipsmuch",
            },
        ]
        if made.seed == 1
        else [],
        "advice": [
            {
                "title": "Rollout waits for its slowest trajectories",
                "text": "The last 5 % of the trajectories take 38 % of gen. A partial rollout would free GPUs earlier.",
                "key": "tail",
            }
        ]
        if made.seed == 1
        else [],
        "health": {"lost": 0 if made.seed != 2 else 1280, "late_s": None, "cut": 0, "sampled_out": 0},
        "last_good_step": 118 if failed else None,
        "rev": rev(made),
    }
