"""`verl-otel report` and `export`: a run in files."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from verl_otel.cli.local import local_folder, needs_extra
from verl_otel.cli.options import as_json, told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from verl_otel.local.client import Client
    from verl_otel.local.store.folder import Folder

_FORMATS: Final = {"parquet": "", "otlp-json": ".otlp.jsonl", "perfetto": ".perfetto.json.gz"}


@click.command()
@click.argument("run")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: RUN.html]")
@click.option("--content", is_flag=True, help="With prompts and answers, where the run captured them.")
@as_json
@local_folder
def report(run: str, output: Path | None, folder: "Folder", *, content: bool, as_json: bool) -> None:
    """Write a run as one HTML file that needs no server and no network.

    RUN: an id, how one or its experiment's name begins, or a .duckdb file.
    """
    needs_extra()
    from verl_otel.local import report as reports

    console = Console(stderr=True)
    with told(), _writing(), _asking(folder, run) as (client, found):
        path = output or Path(f"{_file_name(found)}.html")
        with console.status("asking"):
            size = reports.write(
                client, found, path, content=content, say=lambda text: console.print(text, markup=False)
            )
    _say(path, {"run": found, "bytes": size}, f"{size / 1e6:.1f} MB", as_json=as_json)


@click.command()
@click.argument("run")
@click.option("--to", "kind", type=click.Choice(tuple(_FORMATS)), required=True, help="parquet: a file per table.")
@click.option("--step", type=int, help="Only what belongs to this step.")
@click.option("--profiler/--no-profiler", default=False, help="perfetto: with the traces of torch's profiler.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; of parquet a folder.")
@as_json
@local_folder
def export(
    run: str, kind: str, step: int | None, output: Path | None, folder: "Folder", *, profiler: bool, as_json: bool
) -> None:
    """Write a run for other programs: Parquet, OTLP as JSON lines, a timeline for ui.perfetto.dev.

    RUN: an id, how one or its experiment's name begins, or a .duckdb file.
    """
    needs_extra()
    from verl_otel.local import export as exports
    from verl_otel.local import profiles, selection

    console = Console(stderr=True)
    with told(), _writing(), _database(folder, run) as (database, found), console.status("writing"):
        at_step = "" if step is None else f".step{step}"
        path = output or Path(f"{_file_name(found)}{at_step}{_FORMATS[kind]}")
        merged = profiles.of_step(database, step) if profiler and kind == "perfetto" else []
        if step is not None:
            selection.narrow(database, step)
        if kind == "parquet":
            number, what = exports.parquet(database, path), "tables"
        elif kind == "otlp-json":
            number, what = exports.otlp(database, path), "requests"
        else:
            say = lambda text: console.print(text, markup=False)  # noqa: E731
            number, what = exports.timeline(database, path, merged, say), "events"
    _say(path, {"run": found, what: number}, f"{number:,} {what}", as_json=as_json)


def _say(path: Path, more: dict[str, Any], text: str, *, as_json: bool) -> None:
    click.echo(json.dumps({"path": str(path.resolve()), **more}) if as_json else f"{path}: {text}")


@contextlib.contextmanager
def _asking(folder: "Folder", run: str) -> "Iterator[tuple[Client, str]]":
    """A client, and the run's id. Raises `LocalError`."""
    from verl_otel.local import backend
    from verl_otel.local.choice import choose
    from verl_otel.local.store.folder import Folder

    with contextlib.ExitStack() as stack:
        path = Path(run).expanduser()
        if path.suffix == ".duckdb" and path.is_file():
            # Served for as long as this takes, from a copy: nothing beside the file is touched.
            folder = Folder(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="verl-otel-"))))
            folder.make()
            shutil.copy(path, folder.runs / path.name)
            run = ""
        client = stack.enter_context(backend.asked(folder))
        yield client, str(choose(client.runs(), run)["id"])


@contextlib.contextmanager
def _database(folder: "Folder", run: str) -> "Iterator[tuple[DuckDBPyConnection, str]]":
    """A connection to the run's database as it is now, and the run's id. Raises `LocalError`."""
    import verl_otel.local

    with contextlib.closing(verl_otel.local.open(run, folder.path)) as connection:
        told = connection.execute("SELECT value FROM meta WHERE key = 'run_id'").fetchone()
        yield connection, str(told[0]) if told else run


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """What the disk refuses is one line."""
    from verl_otel.local.errors import LocalError

    try:
        yield
    except OSError as error:
        raise LocalError(f"{error.filename or 'the file'} can't be written: {error.strerror or error}") from error


def _file_name(run: str) -> str:
    from verl_otel.local.store.folder import file_name

    return file_name(run)
