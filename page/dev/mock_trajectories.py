"""Made trajectories: the same at every start, with a tail, some that failed, and groups that teach nothing."""

from __future__ import annotations

import random
from functools import cache

from made import BY_ID, Answer, Made, step_times
from mock import NOW, Query  # noqa: UP026 (the one beside this file)

SORTS: dict[str, str] = {"tokens": "response_tokens"}


@cache
def made_batch(run: str, step: int) -> list[Answer]:
    """Trajectories of a step with their parts."""
    made = BY_ID[run]
    if not 1 <= step <= made.steps:
        return []
    begin, end = step_times(made, NOW)[step - 1]
    limit = (end - begin) * 0.5
    rng = random.Random(f"{run}/{step}")  # noqa: S311
    count = 64 if made.seed == 20 else 24 if made.seed == 5 else 1024
    found = []
    for n in range(count):
        ease = random.Random(f"{run}/{step}/{n // 8}").random()  # noqa: S311
        turns = 1 + int(rng.expovariate(0.5))
        start = begin + rng.uniform(0, limit * 0.03)
        at, parts = start, []
        for turn in range(turns):
            for kind, length in (
                ("queue", rng.expovariate(1 / (limit * 0.02))),
                ("model", rng.expovariate(1 / (limit * 0.12))),
                ("tool", rng.expovariate(1 / (limit * 0.03))),
            ):
                if kind == "tool" and turn == turns - 1:
                    continue
                length = min(length, max(0.0, begin + limit * 0.94 - at))
                parts.append(
                    {"kind": kind, "start": at, "end": at + length, "error": kind == "tool" and rng.random() < 0.03}
                )
                at += length * 1.02
        if n % 90 == 5:
            parts.insert(0, {"kind": "gate", "start": start, "end": start + limit * 0.05, "error": False})
        parts.append({"kind": "reward", "start": at, "end": at + limit * 0.02, "error": False})
        failed = n % 211 == 17
        reward = None if failed else float(rng.random() < ease * 1.4 - 0.2)
        found.append(
            {
                "trace": f"{step:08x}{n:024x}",
                "span": f"{n:016x}",
                "uid": f"{(n // 8) * 2_654_435_761 % 2**32:08x}-{n // 8}",
                "session": n % 8,
                "start": start,
                "end": at + limit * 0.02,
                "reward": reward,
                "turns": 2 * turns,
                "tokens": int(380 * turns * rng.uniform(0.5, 2)),
                "staleness": rng.randrange(3),
                "outcome": "failed" if failed else "finished",
                "parts": parts,
            }
        )
    return found


def batch(made: Made, query: Query) -> Answer:
    step = int(query["step"][0])
    rows = made_batch(made.id, step)
    by = query.get("sort", ["end"])[0]
    rows = sorted(rows, key=lambda row: row["end"] - row["start"] if by == "seconds" else row[by] or 0)
    if by not in ("start", "reward"):  # the last, longest, oldest first
        rows.reverse()
    consumed = step_times(made, NOW)[step - 1] if rows else None
    return {
        "step": step,
        "total": 16_384 if len(rows) == 1024 else len(rows),
        "consumed": consumed[0] + (consumed[1] - consumed[0]) * 0.52 if consumed else None,
        "rows": rows[:1024],
    }


def trajectory(row: Answer, step: int) -> Answer:
    parts = {} if row["reward"] is None else {"acc": row["reward"], "format": 0.1 * (row["session"] % 2)}
    return {
        "trace": row["trace"],
        "span": row["span"],
        "name": "invoke_agent tool_agent",
        "step": step,
        "validation": False,
        "uid": row["uid"],
        "session": row["session"],
        "start": row["start"],
        "seconds": (row["end"] - row["start"]) / 1000,
        "outcome": row["outcome"],
        "reward": row["reward"],
        "parts": parts,
        "prompt_tokens": 131,
        "response_tokens": row["tokens"],
        "turns": row["turns"],
        "model_calls": row["turns"] // 2,
        "tool_calls": row["turns"] // 2 - 1,
        "stop_reason": None if row["outcome"] == "failed" else "length" if row["tokens"] > 1900 else "completed",
        "weights_oldest": step - row["staleness"],
        "weights_newest": step,
        "host": "node-01",
    }


def trajectories(made: Made, query: Query) -> Answer:
    steps = [int(query["step"][0])] if "step" in query else range(max(1, made.steps - 5), made.steps + 1)
    rows = [trajectory(row, step) for step in steps for row in made_batch(made.id, step)]
    if "uid" in query:
        rows = [row for row in rows if row["uid"] == query["uid"][0]]
    if "search" in query:
        rows = [row for row in rows if query["search"][0] in f"{row['uid']} {row['stop_reason']} {row['outcome']}"]
    by = query.get("sort", ["start"])[0]
    by = SORTS.get(by, by)
    known = [row for row in rows if row[by] is not None]
    known.sort(key=lambda row: row[by], reverse=query.get("desc", ["true"])[0] == "true")
    unknown = [row for row in rows if row[by] is None]
    limit = int(query.get("limit", ["200"])[0])
    return {
        "total": len(rows),
        "rows": (known + unknown)[:limit],
        "distributions": {
            "reward": histogram(rows, "reward"),
            "tokens": histogram(rows, "response_tokens"),
            "seconds": histogram(rows, "seconds"),
            "turns": histogram(rows, "turns"),
        },
    }


def histogram(rows: list[Answer], name: str) -> Answer | None:
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    width = (high - low) / 30 or 1
    counts = [0] * 30
    for value in values:
        counts[min(29, int((value - low) / width))] += 1
    return {"bounds": [low + n * width for n in range(31)], "counts": counts}


def groups(made: Made, query: Query) -> Answer:
    by_uid: dict[str, list[Answer]] = {}
    for row in made_batch(made.id, int(query["step"][0])):
        by_uid.setdefault(row["uid"], []).append(row)
    found = []
    for uid, rows in by_uid.items():
        known = [row["reward"] for row in rows if row["reward"] is not None]
        mean = sum(known) / len(known) if known else None
        spread = (sum((one - mean) ** 2 for one in known) / len(known)) ** 0.5 if mean is not None else None
        found.append(
            {
                "uid": uid,
                "rewards": [row["reward"] for row in rows],
                "mean": mean,
                "spread": spread,
                "signal": "mixed" if spread else "all right" if mean else "all wrong",
                "traces": [row["trace"] for row in rows],
            }
        )
    return {"groups": found}


def signal(made: Made, _: Query) -> Answer:
    steps = list(range(1, made.steps + 1))
    return {
        "steps": steps,
        "all_wrong": [60 - step // 6 for step in steps],
        "mixed": [58 for _ in steps],
        "all_right": [10 + step // 6 for step in steps],
        "filtered": [step % 5 for step in steps],
    }


def tools(made: Made, _: Query) -> Answer:
    rows: list[Answer] = [
        {
            "kind": "tool",
            "name": "execute_tool search",
            "calls": 18_204,
            "errors": 411,
            "p50_s": 0.41,
            "p95_s": 3.9,
            "max_s": 61.0,
            "top_error": "TimeoutError: no answer in 60 s (HTTP 504)",
            "example": f"{made.steps:08x}{5:024x}",
        },
        {
            "kind": "tool",
            "name": "execute_tool python",
            "calls": 7_120,
            "errors": 0,
            "p50_s": 0.08,
            "p95_s": 0.4,
            "max_s": 9.1,
            "top_error": None,
            "example": None,
        },
        {
            "kind": "reward",
            "name": "compute_score",
            "calls": 24_000,
            "errors": 12,
            "p50_s": 0.012,
            "p95_s": 0.05,
            "max_s": 4.2,
            "top_error": "ValueError",
            "example": None,
        },
    ]
    return {"rows": rows if made.steps else []}
