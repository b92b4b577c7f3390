"""`verl-otel env`."""

import json
from pathlib import Path

import click

from verl_otel.cli.options import as_json, stack_folder, told
from verl_otel.stack import environment, plan
from verl_otel.stack.control import writing_to


@click.command()
@click.option("--for", "notation", type=click.Choice(tuple(environment.NOTATIONS)), default="shell", show_default=True)
@as_json
@stack_folder
def env(notation: str, folder: Path, *, as_json: bool) -> None:
    """The variables that a run needs to send to the stack: `eval "$(verl-otel env)"`.

    No secret is among them: a token is in a file that they name.
    """
    with told(), writing_to(folder):
        made = plan.read(folder)
        found = environment.variables(made)
        click.echo(json.dumps(found, indent=1) if as_json else environment.NOTATIONS[notation](made, found), nl=as_json)
