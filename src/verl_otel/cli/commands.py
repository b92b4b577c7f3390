"""Commands and their options; what they do stands in modules of their own."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from rich.console import Console

from verl_otel.cli.env import env
from verl_otel.cli.local import down, list_runs, remove_runs, up
from verl_otel.cli.local_output import export, report
from verl_otel.cli.local_run import run
from verl_otel.cli.local_tail import tail
from verl_otel.cli.options import as_json, stack_folder
from verl_otel.cli.show_findings import show
from verl_otel.cli.stack import stack
from verl_otel.doctor import doors, endpoint, hook_points, nodes, variables, versions
from verl_otel.doctor import stack as path
from verl_otel.doctor.findings import Finding, State
from verl_otel.settings import collect_complaints
from verl_otel.stack import StackError, plan
from verl_otel.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="verl-otel")
def commands() -> None:
    """Make verl's training runs observable with OpenTelemetry."""


for command in (run, up, down, list_runs, remove_runs, tail, report, export, stack, env):
    commands.add_command(command)


@commands.command()
@click.option(
    "--address", help="Ray cluster to ask, as for ray.init (default: RAY_ADDRESS; without one none is asked)."
)
@click.option("--prometheus", metavar="URL", help="Of a path that `verl-otel stack` doesn't run: ask this one.")
@click.option("--tempo", metavar="URL", help="The same for traces.")
@as_json
@stack_folder
def doctor(address: str | None, prometheus: str | None, tempo: str | None, folder: Path, *, as_json: bool) -> None:
    """Why is this panel empty? Tests each link from verl to the backend, here and on every node of a Ray cluster.

    Exit code 0: nothing is broken (warnings apart). 1: something is. 2: wrong usage.
    """
    console = Console(stderr=as_json)
    links = (
        ("versions", versions.check),
        ("doors", doors.check),
        ("hook points", hook_points.check),
        ("settings", variables.check),
        ("endpoint", endpoint.check),
        ("nodes", lambda: nodes.check(address)),
        ("stack", lambda: _stack(folder, prometheus, tempo)),
    )
    found: list[Finding] = []
    for name, check in links:
        # What is wrong with the settings is a finding, said once.
        with console.status(f"testing {name}"), collect_complaints():
            some = _run(name, check)
        found += some
        if not as_json:
            show(console, name, some)
    failed = any(one.state is State.FAILED for one in found)
    if as_json:
        findings = [dataclasses.asdict(one) for one in found]
        click.echo(json.dumps({"ok": not failed, "version": __version__, "findings": findings}, indent=1))
    sys.exit(1 if failed else 0)


def _stack(folder: Path, prometheus: str | None, tempo: str | None) -> Iterator[Finding]:
    if prometheus:
        yield from path.check(path.of_variables(prometheus, tempo))
        return
    try:
        made = plan.read(folder)
    except StackError as error:
        remedy = "for one of yours give --folder, or --prometheus and --tempo"
        yield Finding("stack", "none", State.NOTE, str(error), remedy)
        return
    yield from path.check_programs(made)
    yield from path.check(path.of_plan(made))


def _run(link: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check())
    except Exception as error:  # noqa: BLE001 - one link that can't be tested must not hide the others
        detail = f"{type(error).__name__}: {error}"
        found.append(Finding(link, "this test itself", State.FAILED, detail, "report it as a defect of verl-otel"))
    return found
