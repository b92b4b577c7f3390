"""`verl-otel up`, `down`, `ls`, `rm`: the embedded backend and the runs in its folder."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from verl_otel.cli.options import as_json, told

if TYPE_CHECKING:
    from verl_otel.local.store.folder import Backend, Folder

_NEEDED: Final = ("duckdb", "orjson", "starlette", "uvicorn")
_CURVE: Final = 10
_WIDE: Final = 200
_EXTRA: Final = "this needs the extra `local`: pip install 'verl-otel[local]'"


def local_folder(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--folder`, of the embedded backend."""
    option = click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="Where runs are kept.  [default: ~/.local/share/verl-otel/local]",
        callback=lambda _context, _option, given: _folder(given),
    )
    return option(command)


def _folder(given: Path | None) -> "Folder":
    from verl_otel.local.store.folder import Folder, default_folder

    return Folder((given or default_folder()).expanduser().resolve())


def needs_extra() -> None:
    """One clear line where the backend's libraries are missing."""
    if missing := [one for one in _NEEDED if importlib.util.find_spec(one) is None]:
        raise click.ClickException(f"{_EXTRA} ({', '.join(missing)} missing)")


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Of page, API and OTLP/HTTP.  [default: 4318, or the next]")
@click.option("--grpc-port", type=click.IntRange(1, 65535), help="Of OTLP/gRPC.  [default: 4317, or the next]")
@click.option("--bind", default="127.0.0.1", help="Address; beyond loopback a token is asked for.")
@click.option("--keep-days", type=click.FloatRange(min=0), help="Remove runs that are older.  [default: never]")
@click.option("--keep-gib", type=click.FloatRange(min=0), help="Remove the oldest above this size.  [default: never]")
@click.option("--demo", is_flag=True, help="Add a run of made data: 1,024 ranks, 128 replicas, 1,000 steps.")
@click.option("--open/--no-open", "open_page", default=False, help="Open the page in a browser.")
@as_json
@local_folder
def up(
    folder: "Folder",
    port: int | None,
    grpc_port: int | None,
    bind: str,
    keep_days: float | None,
    keep_gib: float | None,
    *,
    demo: bool,
    open_page: bool,
    as_json: bool,
) -> None:
    """Serve the runs of a folder: OTLP in, the page and the API out. Ctrl-C ends it; nothing is lost.

    Exit code 0: it was ended. 1: it can't start; 2: wrong usage.
    """
    needs_extra()
    from verl_otel.local import serve
    from verl_otel.local.store.retention import Limits

    limits = Limits(keep_days, None if keep_gib is None else int(keep_gib * (1 << 30)))

    def ready(backend: "Backend", link: str) -> None:
        _show(backend, link, folder, as_json=as_json)
        if open_page:
            click.launch(link)

    with told():
        serve.run(folder, serve.Options(port, grpc_port, bind, demo, limits), ready)


def _show(backend: "Backend", link: str, folder: "Folder", *, as_json: bool) -> None:
    if as_json:
        shown = {"url": backend.url, "link": link, "grpc": backend.grpc, "pid": backend.pid, "folder": str(folder.path)}
        click.echo(json.dumps(shown))
        return
    console = Console(soft_wrap=True, highlight=False)
    for name, value in (("page", link), ("OTLP/HTTP", backend.url), ("OTLP/gRPC", backend.grpc)):
        console.print(f"[bold]{name:10}[/bold] {escape(value)}")
    console.print(f"[bold]{'folder':10}[/bold] {escape(str(folder.path))}")


@click.command()
@local_folder
def down(folder: "Folder") -> None:
    """End the backend that serves a folder. Its runs stay."""
    from verl_otel.local import backend

    with told():
        was_up = backend.stop(folder)
    click.echo("stopped" if was_up else "nothing was running")


@click.command("ls")
@as_json
@local_folder
def list_runs(folder: "Folder", *, as_json: bool) -> None:
    """The runs of a folder, the newest first, whether a backend serves it or not."""
    from verl_otel.local import listing
    from verl_otel.local.terminal import duration, number, size, sparkline, steps

    with told():
        runs = listing.runs(folder)
    if as_json:
        click.echo(json.dumps(runs, indent=1))
        return
    if not runs:
        click.echo("no runs yet")
        return
    table = Table("run", "what", "status", "step", "took", "reward", "", "size", box=None)
    for one in runs:
        points = (one["reward"] or {}).get("points", [])
        values = [value for _, value in points]
        what = " ".join(one[name] for name in ("project", "experiment") if one[name])
        took = duration(((one["ended"] or one["updated"]) - one["started"]) / 1000)
        last = number(values[-1]) if values else ""
        cells = (one["id"], what, one["status"], steps(one), took, last, sparkline(values, _CURVE), size(one["bytes"]))
        table.add_row(*map(escape, cells))
    for column in table.columns:
        column.no_wrap = column.header != "what"
    # Where it goes to another program, lines stay whole.
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table, highlight=False)


@click.command("rm")
@click.argument("runs", nargs=-1, required=True)
@local_folder
def remove_runs(runs: tuple[str, ...], folder: "Folder") -> None:
    """Remove runs for good. RUN: an id, or how one or its experiment's name begins; all are found before any goes."""
    from verl_otel.local import listing
    from verl_otel.local.choice import choose

    with told():
        known = listing.runs(folder)
        found = list(dict.fromkeys(str(choose(known, text)["id"]) for text in runs))
        for run in found:
            listing.remove(folder, run)
            click.echo(f"removed {run}")


def fail(message: str, code: int) -> None:
    """One line, and an exit code other than 1."""
    Console(stderr=True).print(f"[red]error:[/red] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(code)
