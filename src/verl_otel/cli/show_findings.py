"""Findings on a terminal: a line each, what to do below what is wrong."""

from typing import Final

from rich.console import Console
from rich.markup import escape

from verl_otel.doctor.findings import Finding, State

_LOOK: Final = {
    State.OK: ("green", "ok     "),
    State.NOTE: ("blue", "note   "),
    State.WARNING: ("yellow", "warning"),
    State.FAILED: ("red", "failed "),
}


def show(console: Console, title: str, findings: list[Finding]) -> None:
    """Print the findings of one link."""
    console.print(f"[bold]{title}[/bold]")
    for one in findings:
        colour, word = _LOOK[one.state]
        console.print(f"  [{colour}]{word}[/{colour}] {escape(one.name)}: {escape(one.detail)}", highlight=False)
        if one.remedy and one.state is not State.OK:
            console.print(f"          {escape(one.remedy)}", highlight=False)
