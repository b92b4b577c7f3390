"""A stand-in for the backend: `python page/dev/mock.py [port]` serves the built page and made answers on loopback.

Deterministic but for the clock. MOCK_SLOW_MS delays every answer, MOCK_LIVE=1 gives the running runs a new revision
each two seconds, MOCK_PAGE names another folder with a built page.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from made import (
    BY_ID,
    NOW,
    PHASES,
    RUNS,
    Answer,
    Made,
    Query,
    phase_seconds,
    rev,
    scalars,
    step_times,
    unit,
)
from mock_overview import overview, run

PAGE = Path(os.environ.get("MOCK_PAGE") or Path(__file__).resolve().parents[2] / "src" / "verl_otel" / "local" / "page")
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


def keys(made: Made, _: Query) -> Answer:
    found = []
    for key, values in scalars(made.id).items():
        known = [(i + 1, value) for i, value in enumerate(values) if value is not None]
        if not known:
            continue
        family, _slash, statistic = key.rpartition("/")
        is_statistic = statistic in ("mean", "max", "min", "std")
        odd = sum(not math.isfinite(value) for _, value in known)
        found.append(
            {
                "key": key,
                "family": family if is_statistic else key,
                "statistic": statistic if is_statistic else None,
                "unit": unit(key),
                "points": len(known),
                "nonfinite": odd,
                "first_step": known[0][0],
                "last_step": known[-1][0],
            }
        )
    return {"keys": found}


def curves(made: Made, query: Query) -> Answer:
    x = query.get("x", ["step"])[0]
    times = step_times(made, NOW)
    low, high = float(query.get("from", ["-inf"])[0]), float(query.get("to", ["inf"])[0])
    answers = []
    for key in query.get("key", []):
        xs: list[float] = []
        ys: list[float | None] = []
        odd: list[tuple[float, str]] = []
        for i, value in enumerate(scalars(made.id).get(key, [])):
            end = times[i][1]
            place = {"step": i + 1.0, "time": end, "elapsed": (end - times[0][0]) / 1000}[x]
            if not low <= place <= high:
                continue
            if value is None and not key.startswith("val-core"):
                xs, ys = [*xs, place], [*ys, None]
            elif value is not None and math.isfinite(value):
                xs, ys = [*xs, place], [*ys, value]
            elif value is not None:
                xs, ys = [*xs, place], [*ys, None]
                odd.append((place, "NaN" if math.isnan(value) else "+Inf"))
        answers.append(
            {"key": key, "unit": unit(key), "xs": xs, "ys": ys, "reduced": False, "points": len(xs), "nonfinite": odd}
        )
    return {"x": x, "curves": answers, "rev": rev(made)}


def marks(made: Made, _: Query) -> Answer:
    times = step_times(made, NOW)
    found = [
        {"time": times[i][1], "step": i + 1, "kind": "checkpoint", "label": f"checkpoint of step {i + 1}"}
        for i in range(49, made.steps, 50)
    ]
    if made.attempts > 1:
        found.append({"time": times[140][0], "step": 141, "kind": "restart", "label": "attempt 2"})
    if made.status == "failed" and made.steps > 3:
        found.append({"time": times[-3][1], "step": made.steps - 2, "kind": "nan", "label": "actor/grad_norm is NaN"})
        found.append({"time": times[-1][1], "step": made.steps, "kind": "error", "label": "torch.OutOfMemoryError"})
    return {"marks": sorted(found, key=lambda one: float(str(one["time"])))}


def steps(made: Made, query: Query) -> Answer:
    low, high = float(query.get("from", ["-inf"])[0]), float(query.get("to", ["inf"])[0])
    times = step_times(made, NOW)
    chosen = [i for i in range(made.steps) if low <= i + 1 <= high]
    phases = {phase: [phase_seconds(made, phase, i) for i in chosen] for phase in PHASES}
    if made.steps > 20:
        phases["testing"] = [21.0 if (i + 1) % 20 == 0 else None for i in chosen]
        phases["save_checkpoint"] = [14.5 if (i + 1) % 50 == 0 else None for i in chosen]
    rest = [3.5 + (i % 7) for i in chosen]
    total = [sum((values[n] or 0) for values in phases.values()) + rest[n] for n in range(len(chosen))]
    return {
        "steps": [i + 1 for i in chosen],
        "width": 1,
        "phases": phases,
        "total": total,
        "rest": rest,
        "start": [times[i][0] for i in chosen],
        "end": [times[i][1] for i in chosen],
        "trace": [f"{i + 1:032x}" for i in chosen],
        "rev": rev(made),
    }


def config(made: Made, _: Query) -> Answer:
    actor = {
        "optim": {"lr": made.lr, "weight_decay": 0.01},
        "ppo_mini_batch_size": 256,
        "use_kl_loss": made.seed % 2 == 1,
        "clip_ratio": 0.2,
    }
    if made.seed % 2:
        actor["kl_loss_coef"] = 0.001
    return {
        "config": {
            "actor_rollout_ref": {
                "actor": actor,
                "model": {"path": made.model},
                "rollout": {"n": 8, "temperature": 1.0, "name": "vllm"},
            },
            "trainer": {"total_epochs": 15, "nnodes": 1 + made.seed % 3, "logger": ["console", "otel"]},
            "data": {"train_batch_size": 128 * made.seed, "max_response_length": 2048},
        },
        "versions": {"verl": "0.9.0" if made.seed != 2 else "0.9.1", "torch": "2.9.1", "vllm": "0.21.0"},
        "info": {"host.name": f"node-{made.seed % 4:02d}", "gpu": "8 x NVIDIA H100"},
    }


def panels(made: Made, name: str) -> Answer:
    times = [end for _, end in step_times(made, NOW)]
    share = [0.35 + 0.2 * math.sin(i / 9) for i in range(len(times))]
    made_panels = {
        "pipeline": [
            (
                "waits",
                "Who waits for whom?",
                "1",
                {"trainer idle": share, "rollout idle": [0.9 - value for value in share]},
            )
        ],
        "engine": [
            (
                "load",
                "Is a replica overloaded or starved?",
                "{request}",
                {f"replica {n}": [18 + 9 * math.sin(i / 5 + n) for i in range(len(times))] for n in range(4)},
            )
        ],
    }.get(name, [])
    return {
        "panels": [
            {
                "id": id_,
                "title": title,
                "good": "",
                "unit": of,
                "x": times,
                "lines": [{"name": line, "ys": ys} for line, ys in lines.items()],
                "threshold": None,
                "why_empty": None if times else "No step has ended yet.",
            }
            for id_, title, of, lines in made_panels
        ],
        "rows": [],
        "rev": rev(made),
    }


ANSWERS: dict[str, Callable[[Made, Query], Answer]] = {
    "": overview,
    "keys": keys,
    "curves": curves,
    "marks": marks,
    "steps": steps,
    "config": config,
    "pipeline": lambda made, _: panels(made, "pipeline"),
    "engine": lambda made, _: panels(made, "engine"),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/api/live":
            return self.live()
        if parts.path.startswith("/api/"):
            time.sleep(int(os.environ.get("MOCK_SLOW_MS", "0")) / 1000)
            return self.api(parts.path, parse_qs(parts.query))
        file = PAGE / (parts.path.lstrip("/") or "index.html")
        if not file.is_file():
            return self.say(404, b"Not found", "text/plain")
        return self.say(200, file.read_bytes(), TYPES.get(file.suffix, "application/octet-stream"))

    def api(self, path: str, query: Query) -> None:
        _, _, _, *rest = path.split("/")
        if not rest:
            return self.json(200, {"runs": [run(made) for made in RUNS]})
        made = BY_ID.get(unquote(rest[0]))
        answer: Callable[[Made, Query], Answer] | None = ANSWERS.get("/".join(rest[1:]))
        if made is None or answer is None:
            return self.json(404, {"error": f"Nothing is known of {path}."})
        return self.json(200, answer(made, query))

    def live(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            while True:
                self.wfile.write(f"event: runs\ndata: {json.dumps({made.id: rev(made) for made in RUNS})}\n\n".encode())
                self.wfile.flush()
                time.sleep(1)
        except OSError:
            return

    def json(self, status: int, answer: Any) -> None:
        self.say(status, json.dumps(answer).encode(), "application/json")

    def say(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8123), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/\n")
    sys.stdout.flush()
    server.serve_forever()
