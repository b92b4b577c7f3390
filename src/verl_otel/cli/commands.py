"""Commands and their options; what they do stands in modules of their own."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable

import click
from rich.console import Console

from verl_otel.cli.show_findings import show
from verl_otel.doctor import doors, endpoint, hook_points, nodes, variables, versions
from verl_otel.doctor.findings import Finding, State
from verl_otel.settings import collect_complaints
from verl_otel.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="verl-otel")
def commands() -> None:
    """Make verl's training runs observable with OpenTelemetry."""


@commands.command()
@click.option(
    "--address", help="Ray cluster to ask, as for ray.init (default: RAY_ADDRESS; without one none is asked)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the findings, for scripts.")
def doctor(address: str | None, *, as_json: bool) -> None:
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


def _run(link: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check())
    except Exception as error:  # noqa: BLE001 - one link that can't be tested must not hide the others
        detail = f"{type(error).__name__}: {error}"
        found.append(Finding(link, "this test itself", State.FAILED, detail, "report it as a defect of verl-otel"))
    return found
