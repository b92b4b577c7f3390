"""`verl-otel run`: a command with the backend behind it."""

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from verl_otel.cli.local import fail, local_folder, needs_extra

if TYPE_CHECKING:
    from verl_otel.local.store.folder import Backend, Folder

OWN_FAULT: Final = 125
"""Exit code when the backend doesn't start; 126 and 127 are a shell's for a command that can't be run."""
_SETTLE: Final = 1.5
"""Seconds in which a run that has just ended may still appear."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Of a backend that is started.  [default: 4318, or the next]"
)
@click.option("--open/--no-open", "open_page", default=False, help="Open the page in a browser.")
@local_folder
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: "Folder", port: int | None, command: tuple[str, ...], *, open_page: bool) -> None:
    """Run COMMAND observed: verl-otel run -- python -m verl.trainer.main_ppo ...

    A backend is started in the background if none serves the folder; it goes on when the command has ended
    (`verl-otel down`). Python is started through OpenTelemetry's launcher, anything else with VERL_OTEL_ENABLED=true.

    Exit code: the command's own, 128 and the signal's number if one ended it. 125: the backend doesn't start.
    126, 127: the command can't be run, isn't there.
    """
    needs_extra()
    from verl_otel.local import backend, launch
    from verl_otel.local.errors import LocalError

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        launch.check(command)
        found, started = backend.ensure(folder, port)
        before = _known(folder, found)
        headers = backend.headers_file(folder, found)
    except launch.CommandError as error:
        fail(str(error), error.code)
        return
    except (LocalError, OSError) as error:
        fail(str(error), OWN_FAULT)
        return
    if port and not found.url.endswith(f":{port}"):
        console.print(f"verl-otel: the folder is served already, at another port than {port}", markup=False)
    console.print(f"verl-otel: {backend.link(folder, found)}" + (" (started)" if started else ""), markup=False)
    if given := os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        console.print(f"verl-otel: sends there, not to {given} (OTEL_EXPORTER_OTLP_ENDPOINT)", markup=False)
    if open_page:
        click.launch(backend.link(folder, found))
    observed, variables = launch.observed(command)
    code = launch.follow(observed, {**launch.environment(found.url, headers, os.environ), **variables})
    _say_where(console, folder, found, before)
    sys.exit(code)


def _known(folder: "Folder", found: "Backend") -> dict[str, Any]:
    """Newest data of each run there is."""
    from verl_otel.local import backend

    with backend.client_of(folder, found) as client:
        return {one["id"]: one["updated"] for one in client.runs()}


def _say_where(console: Console, folder: "Folder", found: "Backend", before: dict[str, Any]) -> None:
    """Links of the runs that the command added to."""
    from verl_otel.local import backend
    from verl_otel.local.errors import LocalError

    deadline = time.monotonic() + _SETTLE
    ran: list[str] = []
    try:
        while not ran and time.monotonic() < deadline:
            ran = [name for name, updated in _known(folder, found).items() if before.get(name) != updated]
            time.sleep(0 if ran else 0.2)
    except LocalError as error:
        console.print(f"verl-otel: {error}", markup=False)
        return
    for name in ran:
        console.print(f"verl-otel: {backend.link(folder, found, name)}", markup=False)
    if not ran:
        console.print(
            "verl-otel: nothing arrived; `verl-otel doctor` says why, and which door reaches your command", markup=False
        )
