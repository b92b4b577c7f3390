"""`verl-otel tail`: a run on the terminal while it goes on."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.live import Live

from verl_otel.cli.local import local_folder
from verl_otel.cli.options import as_json, told

if TYPE_CHECKING:
    from verl_otel.local.client import Client
    from verl_otel.local.store.folder import Folder

NOT_FINISHED: Final = 3
"""Exit code for a run that failed, was interrupted or vanished."""
_EVERY: Final = 1.0
_RUNNING: Final = "running"


@click.command()
@click.argument("run", required=False)
@click.option("--once", is_flag=True, help="Show it as it is now, and end.")
@as_json
@local_folder
def tail(run: str | None, folder: "Folder", *, once: bool, as_json: bool) -> None:
    """Follow a run to its end: step, open phases, progress, main curves, alerts. A line for each change where there
    is no terminal; with --json the API's overview, a line for each.

    RUN: an id, or how one or its experiment's name begins; without it, the newest.

    Exit code 0: it finished, or Ctrl-C. 1: it can't be followed. 3: it failed, was interrupted, or vanished.
    """
    from verl_otel.local import backend
    from verl_otel.local.choice import choose, newest
    from verl_otel.local.errors import LocalError

    with told():
        found = backend.serving(folder)
        if found is None:
            raise LocalError(f"nothing serves {folder.path}: `verl-otel up` does")
        with backend.client_of(folder, found) as client, contextlib.suppress(KeyboardInterrupt):
            runs = client.runs()
            name = str((choose(runs, run) if run else newest(runs))["id"])
            link = backend.link(folder, found, name)
            status = _follow(client, name, link, once=once, as_json=as_json)
            sys.exit(0 if status in ("finished", _RUNNING) else NOT_FINISHED)


def _follow(client: "Client", name: str, link: str, *, once: bool, as_json: bool) -> str:
    from verl_otel.local.terminal import line, picture

    console = Console()
    live = Live(console=console, auto_refresh=False, transient=False)
    shown = None
    status = ""
    with live if console.is_terminal and not as_json else contextlib.nullcontext():
        for overview, curves in _updates(client, name):
            status = str(overview["run"]["status"])
            if as_json:
                if shown != overview["rev"]:
                    click.echo(json.dumps(overview))
                shown = overview["rev"]
            elif console.is_terminal:
                live.update(picture(overview, curves, link), refresh=True)
            elif (text := line(overview, curves)) != shown:
                click.echo(text)
                shown = text
            if once or status != _RUNNING:
                break
    return status


def _updates(client: "Client", name: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Overview and curves, each second; curves are asked for when there is a new step."""
    from verl_otel.local.terminal import CURVES, WIDTH

    step: Any = object()
    curves: list[dict[str, Any]] = []
    while True:
        overview = client.run(name)
        run = overview["run"]
        if run["step"] != step:
            step = run["step"]
            reward = [run["reward"]["key"]] if run["reward"] else []
            curves = client.run(name, "curves", key=[*reward, *CURVES], x="step", width=WIDTH)["curves"]
        yield overview, curves
        time.sleep(_EVERY)
