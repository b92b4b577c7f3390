"""The command `verl-otel`; its libraries are in the extra `cli`, so that training images need none of them."""

import sys


def main() -> None:
    """Entry point of the command."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.exit(f"verl-otel's command needs {error.name}: install the extra `cli` (click and rich)")
    from verl_otel.cli.commands import commands

    commands()
