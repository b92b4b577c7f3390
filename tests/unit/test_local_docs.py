"""docs/local.md: it names every table, column, command and exit code, and its examples run."""

import re
from pathlib import Path

import pytest

import verl_otel.local
from small_run import SmallRun
from verl_otel.cli.commands import commands
from verl_otel.cli.local_run import OWN_FAULT
from verl_otel.cli.local_tail import NOT_FINISHED
from verl_otel.local import launch

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "local.md").read_text()
METRICS = ("series", "points", "histograms")


def columns():
    found = SmallRun().connection.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal")
    return found.fetchall()


@pytest.mark.parametrize(("table", "column"), columns())
def test_every_column_is_said_in_its_tables_section(table, column):
    tables = TEXT.partition("## Tables")[2].partition("\n## ")[0]
    sections = [one for one in re.split(r"\n(?=\*\*)", tables) if f"**`{table}`**" in one]
    assert len(sections) == 1
    if table in METRICS:
        # One name may be another column of another of the three.
        assert f"`{table}.{column}`" in sections[0] or (table != "series" and column == "series")
    else:
        assert re.search(rf"`{column}`", sections[0])


def test_every_option_of_a_command_is_there():
    for name in ("run", "up", "down", "ls", "tail", "report", "export", "rm"):
        assert re.search(rf"\| `{name}[ `]", TEXT), name
    for name in ("export", "report", "up"):
        options = {option for one in commands.commands[name].params for option in one.opts if option.startswith("--")}
        left = {one for one in options if one not in TEXT} - {"--output", "--port", "--grpc-port", "--open"}
        assert left == set()


def test_exit_codes_are_those_of_the_code():
    for code in (OWN_FAULT, launch.CANNOT_RUN, launch.NOT_FOUND):
        assert f"{code}:" in TEXT
    assert f"| {NOT_FINISHED} | `tail`" in TEXT


def test_examples_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    (tmp_path / "runs").mkdir(parents=True)
    run = SmallRun(tmp_path / "runs" / "small.duckdb").fill()
    run.connection.execute(
        "INSERT INTO series VALUES (9, 'hw.gpu.utilization', '1', 'gauge', false, false, 's', 1, NULL, '{}')"
    )
    run.connection.execute("INSERT INTO points VALUES (9, 1796127240000000000, 0.5)")
    run.close()
    original = verl_otel.local.open
    monkeypatch.setattr(verl_otel.local, "open", lambda _: original(tmp_path / "runs" / "small.duckdb"))
    examples = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(examples) == 3
    names = {}
    for one in examples:
        exec(one, names)
    assert "0.25" in capsys.readouterr().out
    assert list(names["curves"].columns) == ["critic/score/mean"]
    assert list(names["slowest"]["name"]) == ["verl.worker.update_actor"] * 2
    assert list(names["gpu"]["value"]) == [0.5]
