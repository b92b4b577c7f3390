"""A run's database made by hand: two steps of a trainer and a rank, concurrent trajectories, each kind of metric."""

import json
from pathlib import Path

import duckdb

from verl_otel.local.store import migrations

START = 1_796_127_240_000_000_000
SECOND = 10**9


class SmallRun:
    """Rows are added by name; `connection` is the database's."""

    def __init__(self, path=":memory:", run="20261201-small"):
        self.connection = duckdb.connect(str(path))
        migrations.prepare(self.connection, run)
        for number, instance, host, role, rank in ((1, "a", "one", "trainer", None), (2, "b", "two", "actor", 3)):
            resource = {"service.name": "verl", "process.pid": 10 * number, "ratio": 0.5, "made": [1, True, None]}
            values = [number, instance, host, 10 * number, 1, role, rank, None, json.dumps(resource), START, START]
            self.connection.execute(f"INSERT INTO processes VALUES ({', '.join('?' * 11)})", values)

    def close(self):
        self.connection.close()

    def span(self, name, start, end, trace="t0", span=None, parent=None, process=1, step=None, **more):
        """Times in seconds after START."""
        span = span or f"s{self.connection.execute('SELECT count(*) FROM spans').fetchone()[0]:015}"
        row = {
            "trace": trace, "span": span, "parent": parent, "name": name, "kind": 1,
            "start": START + int(start * SECOND), "end": START + int(end * SECOND), "error": False, "message": None,
            "scope": "verl_otel", "process": process, "step": step, "phase": None, "role": None, "rank": None,
            "replica": None, "lane": None, "validation": None, "attributes": "{}", "links": None, "events": None,
            **more,
        }  # fmt: skip
        self.connection.execute(f"INSERT INTO spans VALUES ({', '.join('?' * len(row))})", list(row.values()))
        return span

    def event(self, name, time, attributes, process=1, at=None):
        """`time`: in seconds after START; `at`: in ns since the epoch instead."""
        values = [
            START + int(time * SECOND) if at is None else at,
            name,
            9,
            None,
            None,
            None,
            process,
            json.dumps(attributes),
        ]
        self.connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def fill(self):
        """All that the docstring says."""
        for step in (1, 2):
            at, trace = 100 * step, f"{step:032x}"
            root = self.span("verl.step", at, at + 90, trace, step=step, lane="trainer", attributes='{"verl.step": 1}')
            gen = self.span("verl.phase.gen", at, at + 40, trace, parent=root, step=step, phase="gen", lane="trainer")
            self.span("verl.phase.adv", at + 40, at + 40, trace, parent=root, step=step, phase="adv", lane="trainer")
            self.span(
                "verl.worker.update_actor", at + 41, at + 89, trace, parent=root, process=2, phase="update_actor",
                role="actor", rank=3, lane="actor/3",
                links=json.dumps([{"trace": trace, "span": gen, "attributes": {}}]),
            )  # fmt: skip
            for number in range(3):
                mine = f"{step:016x}{number:016x}"
                agent = self.span("invoke_agent x", at + number, at + 20 + number, mine, step=step)
                failed = {"error": True, "message": "no"} if number == 2 else {}
                self.span("chat", at + 1 + number, at + 12 + number, mine, parent=agent, step=step, **failed)
                row = [mine, agent, "invoke_agent x", START, START, 1, step, False, f"u{number}"]
                columns = 'trace, span, name, start, "end", process, step, validation, uid'
                self.connection.execute(f"INSERT INTO trajectories ({columns}) VALUES ({', '.join('?' * 9)})", row)
            self.connection.execute(
                "INSERT INTO scalars VALUES (?, 'critic/score/mean', ?, ?, 1, 1)",
                [step, 0.25 * step, START + (at + 90) * SECOND],
            )
        self.connection.execute("""
            INSERT INTO series VALUES
                (1, 'verl.critic.score', '', 'gauge', false, false, 'verl_otel', 1, 'critic/score/mean', '{"a": 1}'),
                (2, 'gen_ai.x', 's', 'histogram', false, true, 'verl_otel', 2, NULL, '{}'),
                (3, 'verl.count', '{item}', 'sum', true, false, 'other', 2, NULL, '{"b": "c"}')
        """)
        for series, time, value in ((1, 150, 0.25), (1, 250, float("nan")), (3, 150, 7.0)):
            self.connection.execute("INSERT INTO points VALUES (?, ?, ?)", [series, START + time * SECOND, value])
        self.connection.execute(
            "INSERT INTO histograms VALUES (2, ?, ?, 3, 4.5, 1, 2, [1.0, 2.0], [1, 1, 1])",
            [START + 150 * SECOND, START],
        )
        self.event("verl.run.start", 0, {"verl.run.project": "p"})
        self.event("verl.phase.stuck", 120, {"verl.stuck.duration": 5.0})
        return self


def file(path: Path):
    """A filled one in a file that nobody has open."""
    SmallRun(path).fill().close()
    return path
