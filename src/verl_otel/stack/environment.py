"""The variables that a launcher needs to send to a stack, in its notation. No secret is in them."""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from verl_otel.stack import plan
from verl_otel.stack.plan import Plan
from verl_otel.stack.ports import LOOPBACK

_HEADERS: Final = "headers"
_MOUNT: Final = "/etc/verl-otel"
_LOCAL: Final = "# This stack listens on loopback: a run on another host needs `verl-otel stack up --bind`."


def variables(made: Plan) -> dict[str, str]:
    """By name. The token stands in a file beside the stack, which is written here. Raises `StackError`, `OSError`."""
    found = {
        "VERL_OTEL_ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": made.otlp_url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    if made.certificate:
        found["OTEL_EXPORTER_OTLP_CERTIFICATE"] = str(made.certificate)
    if made.token_file:
        token = plan.secret(made.token_file)
        plan.write_private(made.folder / _HEADERS, f"authorization={quote(f'Bearer {token}')}\n")
        found["VERL_OTEL_HEADERS_FILE"] = str(made.folder / _HEADERS)
    return found


def shell(made: Plan, found: Mapping[str, str]) -> str:
    """For `eval "$(verl-otel env)"`."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in found.items())


def ray(made: Plan, found: Mapping[str, str]) -> str:
    """For `ray job submit --runtime-env FILE`; Ray shows it in clear."""
    return _about(made, found) + "env_vars:\n" + "".join(f"  {name}: {json.dumps(found[name])}\n" for name in found)


def slurm(made: Plan, found: Mapping[str, str]) -> str:
    """Lines of a job script, above `srun`, which hands them on."""
    return _about(made, found) + shell(made, found)


def kubernetes(made: Plan, found: Mapping[str, str]) -> str:
    """For the containers of a RayCluster: variables, and files as a Secret."""
    files = {name: Path(value) for name, value in found.items() if value.startswith("/")}
    lines = [] if made.bind != LOOPBACK else [_LOCAL]
    if files:
        given = " ".join(f"--from-file={path.name}={path}" for path in files.values())
        lines.append(f"# kubectl create secret generic verl-otel {given}")
    lines.append("env:")
    for name, value in found.items():
        shown = f"{_MOUNT}/{files[name].name}" if name in files else value
        lines += [f"  - name: {name}", f"    value: {json.dumps(shown)}"]
    if files:
        lines += ["volumeMounts:", "  - name: verl-otel", f"    mountPath: {_MOUNT}", "    readOnly: true"]
        lines += ["# and beside the containers:", "volumes:", "  - name: verl-otel"]
        lines += ["    secret:", "      secretName: verl-otel"]
    return "\n".join(lines) + "\n"


def _about(made: Plan, found: Mapping[str, str]) -> str:
    files = [value for value in found.values() if value.startswith("/")]
    said = [] if made.bind != LOOPBACK else [_LOCAL]
    if files:
        said.append(f"# Each node must have, at the same path: {', '.join(files)}")
    return "".join(f"{line}\n" for line in said)


NOTATIONS: Final[Mapping[str, Callable[[Plan, Mapping[str, str]], str]]] = {
    "shell": shell,
    "ray": ray,
    "kubernetes": kubernetes,
    "slurm": slurm,
}
