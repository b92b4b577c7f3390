"""The demo: a real verl run on this machine's CPU, observed, and what was learned from it on the terminal.

usage: demo.py [--steps N] [--keep FOLDER]

OTEL_EXPORTER_OTLP_ENDPOINT sends the telemetry there instead of to a backend here
Exit codes: 0 complete, 1 the run failed, 3 the run was fine but telemetry is missing, 130 stopped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from captured import Capture, captured
from observed import problems, read_log
from rich.console import Console
from run import Run, Running
from summary import show_capture, show_steps

from verl_otel import local
from verl_otel.local import backend, report
from verl_otel.local.errors import LocalError
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.runs import Runs

MILESTONES = (
    ("Started a local Ray instance", "Ray is up"),
    ("TransferQueueController", "the trainer is initialising"),
    ("init_model", "workers are set up"),
    ("vLLMHttpServer", "vLLM is starting"),
    ("Initial validation metrics", "validated before training"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Observe a real verl run on this machine's CPU.")
    parser.add_argument("--steps", type=int, default=3, help="training steps (default 3)")
    parser.add_argument("--keep", type=Path, help="folder for output, verl's log, data and report (default: a new one)")
    arguments = parser.parse_args()
    steps = arguments.steps
    sys.stdout.reconfigure(line_buffering=True)
    console = Console()
    folder = (arguments.keep or Path(tempfile.mkdtemp(prefix="verl-otel-demo-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    console.print(f"Training {steps} GRPO steps with verl, Ray and vLLM on CPU, observed: 2 to 3 minutes, up to 7 GiB.")
    # Only where to send is taken from the user; what else is set for other programs is not for this one.
    theirs = {key: value for key, value in os.environ.items() if key.startswith("OTEL_EXPORTER_OTLP_")}
    if theirs.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        run = Run(steps=steps, environment=theirs, logs=folder)
        if code := follow(console, run):
            return code
        show_steps(console, read_log(run.metrics))
        console.print(f"\nThe telemetry was sent to {theirs['OTEL_EXPORTER_OTLP_ENDPOINT']}; look for it there.")
        for line in run.output.read_text(errors="replace").splitlines():
            if "verl-otel: " in line:
                console.print(line, markup=False)
        return 0
    place = Folder(folder / "local")
    try:
        served = backend.start(place)
    except LocalError as error:
        console.print(f"[red]The backend doesn't start:[/red] {error}", highlight=False)
        return 1
    try:
        console.print(f"Watch it while it runs: {backend.link(place, served)}", highlight=False)
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": served.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        run = Run(steps=steps, environment=endpoint, logs=folder)
        if code := follow(console, run):
            return code
    finally:
        backend.stop(place)
    return conclude(console, run, place)


def conclude(console: Console, run: Run, place: Folder) -> int:
    """Show what arrived, leave a report, say how the page is opened again."""
    newest = Runs(place).list()[0]["id"]
    with local.open(newest, place.path) as database:
        code = tell(console, run, captured(database))
    file = run.logs / "report.html"
    with console.status("writing the report"), backend.asked(place) as client:
        report.write(client, newest, file, say=lambda text: console.print(text, markup=False))
    console.print(f"A report for a browser, or a colleague: {file}", highlight=False, soft_wrap=True)
    program = Path(sys.executable).with_name("verl-otel")
    console.print(f"The page again: {program} up --folder {place.path}", highlight=False, soft_wrap=True)
    return code


def tell(console: Console, run: Run, capture: Capture) -> int:
    """Show what arrived, and whether it is all."""
    log = read_log(run.metrics)
    show_steps(console, log)
    show_capture(console, capture)
    missing = problems(capture, log)
    for one in missing[:20]:
        console.print(f"[red]missing:[/red] {one}")
    console.print(f"\nOutput, verl's log and all the data are in {run.logs}", highlight=False, soft_wrap=True)
    if not missing:
        console.print("[green]Complete:[/green] every scalar of every step, one trace per step, nothing lost.")
    return 3 if missing else 0


def follow(console: Console, run: Run) -> int:
    """Run it, saying how far it is; 0 if it ended well."""
    start = time.monotonic()
    with Running(run) as running, console.status("starting") as status:
        said = -1
        while running.process.poll() is None:
            seconds = int(time.monotonic() - start)
            text = f"{progress(run)} ({seconds} s)"
            status.update(text)
            if not console.is_terminal and seconds // 20 > said:
                said = seconds // 20
                console.print(f"  {text}")
            try:
                running.process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        code = running.process.returncode
    if code:
        console.print(f"[red]The run failed[/red] (exit code {code}); its output is {run.output}:")
        console.print("\n".join(run.output.read_text(errors="replace").splitlines()[-15:]), markup=False)
        return 1
    console.print(f"  the run took {time.monotonic() - start:.0f} s")
    return 0


def progress(run: Run) -> str:
    """How far the run is, from what it wrote."""
    if run.metrics.exists() and (lines := read_log(run.metrics)):
        return f"trained {lines[-1][0]} of {run.steps} steps"
    output = run.output.read_text(errors="replace")
    return next((text for mark, text in reversed(MILESTONES) if mark in output), "starting Ray and verl")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped; nothing is left running.")
        sys.exit(130)
