"""`verl-otel stack`: the production path on hosts without containers."""

import dataclasses
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from verl_otel.cli.options import as_json, stack_folder, told
from verl_otel.stack import FILES, StackError, archives, control, plan, ports, programs, releases, services, supervision
from verl_otel.stack.plan import Plan
from verl_otel.stack.ports import LOOPBACK

NAMES = tuple(releases.RELEASES)
NOT_RUNNING = 3
"""Exit code of `status` where nothing runs, as systemd's."""


@click.group()
def stack() -> None:
    """Collector, Prometheus, Tempo and Grafana on this host: installed, run and stopped, without containers."""
    if importlib.util.find_spec("supervisor") is None:
        raise click.ClickException("this needs the extra `stack` (supervisor)")


@stack.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--from", "bundle", type=click.Path(path_type=Path), help="A bundle that `stack bundle` made elsewhere.")
@click.option("--mirror", help="URL below which <host>/<path> of the publishers' files are kept.")
@stack_folder
def install(names: tuple[str, ...], bundle: Path | None, mirror: str | None, folder: Path) -> None:
    """Fetch the publishers' releases, verify them against the publishers' checksums, and unpack them."""
    with told():
        source = archives.Bundle(bundle) if bundle else archives.Source(mirror)
        for name in names or NAMES:
            release = releases.RELEASES[name]
            with _bar(f"{name} {release.version}") as progress:
                path = archives.install(release, source, folder / "programs", progress)
            click.echo(f"{name} {release.version}: {path}")


@stack.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--arch", type=click.Choice(("amd64", "arm64")), help="Of the machine that it is for (default: this).")
@click.option("--mirror", help="URL below which <host>/<path> of the publishers' files are kept.")
def bundle(path: Path, arch: str | None, mirror: str | None) -> None:
    """Write everything that `install --from` needs into one file, for hosts without internet."""
    with told():
        chosen = arch or releases.this_architecture()
        with _bar(path.name) as progress:
            archives.bundle(list(releases.RELEASES.values()), archives.Source(mirror), path, chosen, progress)
        click.echo(f"{path}: for {chosen}; there: verl-otel stack install --from {path.name}")


@stack.command()
@click.option("--bind", default=LOOPBACK, help="Address for OTLP and Grafana; beyond loopback a token is asked for.")
@click.option("--port", "wanted", multiple=True, metavar="NAME=NUMBER", help=f"Of {', '.join(ports.USUAL)}.")
@click.option("--without", multiple=True, type=click.Choice(NAMES[1:]), help="Leave a program out.")
@click.option("--collector", type=click.Path(path_type=Path), help="Binary of your own.")
@click.option("--prometheus", type=click.Path(path_type=Path), help="Binary of your own.")
@click.option("--tempo", type=click.Path(path_type=Path), help="Binary of your own.")
@click.option("--grafana", type=click.Path(path_type=Path), help="Binary of your own.")
@click.option("--metrics-to", metavar="URL", help="A Prometheus 3 that is there already.")
@click.option("--traces-to", metavar="HOST:PORT", help="A trace store that is there already: OTLP by gRPC.")
@click.option("--logs-to", metavar="URL", help="A log store: OTLP by HTTP, the whole URL.")
@click.option("--alertmanager", metavar="HOST:PORT", help="Yours, for the alerts.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="What senders must know (made where there is none)."
)
@click.option("--tls-certificate", type=click.Path(exists=True, path_type=Path), help="PEM; with --tls-key.")
@click.option("--tls-key", type=click.Path(exists=True, path_type=Path))
@click.option("--overlay", multiple=True, type=click.Choice(("tail-sampling.yaml",)), help="Of the collector's.")
@click.option("--retention", default="15d", show_default=True, help="How long Prometheus keeps metrics.")
@as_json
@stack_folder
def up(folder: Path, *, as_json: bool, **options: Any) -> None:
    """Start it, wait until all of it is ready, and say what a run needs."""
    console = Console(stderr=True)
    with told():
        with control.locked(folder):
            if control.is_up(folder):
                made = plan.read(folder)
                console.print("It is up already; `verl-otel stack down` first if it is to change.", highlight=False)
            else:
                if left := supervision.end_leftovers(folder):
                    console.print(f"The last stack here was not stopped: ended {left} of its processes.")
                made = _plan(folder, options)
                with console.status("starting") as shown:
                    control.up(made, lambda waiting: shown.update(f"waiting for {waiting}"))
        _show(made, as_json=as_json)


@stack.command()
@as_json
@stack_folder
def status(folder: Path, *, as_json: bool) -> None:
    """How each program is. Exit code 0: all is well. 1: something is not. 3: nothing runs."""
    with told():
        made = plan.read(folder)
        states = control.status(made)
        if as_json:
            click.echo(json.dumps([dataclasses.asdict(one) for one in states], indent=1))
        else:
            table = Table("program", "state", "address", "pid", "its last words", box=None)
            for one in states:
                colour = "green" if one.is_ready else "red"
                state = f"[{colour}]{'ready' if one.is_ready else one.state.lower()}[/{colour}]"
                table.add_row(one.name, state, one.address, str(one.pid or ""), escape(one.detail))
            Console().print(table)
        if not control.is_up(folder):
            sys.exit(NOT_RUNNING)
        sys.exit(0 if all(one.is_ready for one in states) else 1)


@stack.command()
@click.argument("name", type=click.Choice((*NAMES, "supervisord")))
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes.")
@stack_folder
def logs(name: str, folder: Path, *, follow: bool) -> None:
    """Show the last lines that a program wrote."""
    with told():
        path = folder / "logs" / f"{name}.log"
        if not path.exists():
            raise StackError(f"{path} is not there: {name} never ran in this stack")
        command = ["tail", "-n", "50", *(["-F"] if follow else []), str(path)]
        sys.exit(subprocess.run(command).returncode)  # noqa: S603


@stack.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def files(folder: Path) -> None:
    """Copy the configurations out of the package: for containers (compose.yaml), Kubernetes and hosts of your own."""
    with told(), control.writing_to(folder):
        shutil.copytree(FILES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    click.echo(folder)


@stack.command()
@stack_folder
def down(folder: Path) -> None:
    """Stop everything, the collector first; its data stays."""
    console = Console(stderr=True)
    with told():
        plan.read(folder)
        with console.status("stopping"):
            was_up = control.down(folder)
    click.echo("stopped" if was_up else "nothing was running")


def _plan(folder: Path, options: dict[str, Any]) -> Plan:
    """What the options ask for. Raises `StackError`."""
    without, elsewhere = set(options["without"]), {"prometheus": "metrics_to", "tempo": "traces_to"}
    without |= {name for name, option in elsewhere.items() if options[option]}
    if "prometheus" in without and not options["metrics_to"]:
        raise StackError("without Prometheus, say where metrics go: --metrics-to URL")
    if bool(options["tls_certificate"]) != bool(options["tls_key"]):
        raise StackError("TLS needs both --tls-certificate and --tls-key")
    found = {
        name: programs.find(name, options[name], folder / "programs").path for name in NAMES if name not in without
    }
    bind, token_file = options["bind"], options["token_file"]
    if bind != LOOPBACK and token_file is None:
        token_file = folder / "token"
    opened = dict.fromkeys(("otlp-grpc", "otlp-http", "grafana"), bind)
    chosen = ports.choose(_numbers(options["wanted"]), services.ports_needed(found), opened)
    made = Plan(
        folder=folder,
        programs=found,
        ports=chosen,
        bind=bind,
        token_file=token_file and token_file.resolve(),
        certificate=options["tls_certificate"] and options["tls_certificate"].resolve(),
        key=options["tls_key"] and options["tls_key"].resolve(),
        metrics_to=options["metrics_to"],
        traces_to=options["traces_to"],
        logs_to=options["logs_to"],
        alertmanager=options["alertmanager"],
        retention=options["retention"],
        overlays=options["overlay"],
    )
    if made.token_file:
        plan.secret(made.token_file)
    return made


def _numbers(wanted: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for one in wanted:
        name, _, number = one.partition("=")
        if name not in ports.USUAL or not number.isdigit() or not 0 < int(number) < 1 << 16:
            raise StackError(f"--port {one}: write NAME=NUMBER with one of {', '.join(ports.USUAL)}")
        found[name] = int(number)
    return found


def _show(made: Plan, *, as_json: bool) -> None:
    shown = {
        "folder": str(made.folder),
        "otlp": made.otlp_url,
        "prometheus": made.prometheus_url,
        "tempo": made.tempo_url or made.traces_to,
        "grafana": made.grafana_url,
        "token_file": str(made.token_file) if made.token_file else None,
    }
    if as_json:
        click.echo(json.dumps({**shown, "ports": made.ports}, indent=1))
        return
    console = Console(soft_wrap=True, highlight=False)
    for name, value in shown.items():
        if value:
            console.print(f"[bold]{name:10}[/bold] {escape(value)}")
    if made.bind != LOOPBACK and made.grafana_url:
        console.print(
            f"[bold]password[/bold]   {escape(str(made.folder / services.GRAFANA_PASSWORD))} (Grafana, admin)"
        )
    if made.token_file and not made.certificate and made.bind != LOOPBACK:
        console.print("[yellow]The token travels in clear: beyond a network you trust add --tls-certificate.[/]")
    console.print("What a run needs: [bold]verl-otel env[/bold]")


@contextmanager
def _bar(title: str) -> Iterator[archives.Progress]:
    """A progress bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)

        def more(size: int, of: int | None) -> None:
            bars.update(task, advance=size, total=of)

        yield more
