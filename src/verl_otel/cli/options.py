"""What several commands have in common."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from verl_otel.local.errors import LocalError
from verl_otel.stack import StackError

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")


def stack_folder(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--folder`, of a stack."""
    option = click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        default="~/.local/share/verl-otel/stack",
        show_default=True,
        help="Programs, data, logs and configuration of the stack, all in one.",
        callback=lambda _context, _option, given: given.expanduser().resolve(),
    )
    return option(command)


@contextmanager
def told() -> Iterator[None]:
    """What is wrong is one line, and the exit code 1."""
    try:
        yield
    except (StackError, LocalError) as error:
        Console(stderr=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
