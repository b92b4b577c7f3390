"""Reaching workers: `ray.init` gives every worker of the job our settings and a set-up function.

They are added where Ray looks at the runtime_env for the last time: a submitted job's and `uv run`'s are merged by
then, and nothing conflicts. Before 2.47 Ray has no such place; its RAY_RUNTIME_ENV_HOOK is called at that moment.
"""

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from verl_otel.guard import guard, say
from verl_otel.patching import Patches
from verl_otel.ray import carried, ending
from verl_otel.redaction import SECRET_NAME, without_secrets
from verl_otel.settings import OURS, PER_PROCESS, PREFIX
from verl_otel.telemetry import run

_HOOK: Final = "RAY_RUNTIME_ENV_HOOK"
_OURS: Final = "verl_otel.ray.reach.runtime_env_hook"
_SETUP: Final = "worker_process_setup_hook"
_SETUP_VARIABLE: Final = "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"

_RUN_ID: Final = f"{PREFIX}RUN_ID"
_ATTEMPT: Final = f"{PREFIX}ATTEMPT"

_made: str | None = None
"""The run's identity, if it was made here."""
_theirs: str | None = None
"""The user's own RAY_RUNTIME_ENV_HOOK, while ours stands in its place."""


def patch_init(own: Patches, ray: Any) -> None:
    """`ray`: the package. Says so, once, if it is too late."""
    if ray.is_initialized():
        say(
            "Ray was initialised before verl-otel: its workers can't be reached, and only this process is observed. "
            "Call verl_otel.instrument() (or import verl under opentelemetry-instrument) before ray.init()."
        )
    last_look = functools.partial(_wrap_last_look, own)
    by_variable = not own.wrap(sys.modules["ray._private.worker"], "_maybe_modify_runtime_env", last_look)
    own.require_public(ray, "init", functools.partial(_wrap_init, own, by_variable))
    ending.patch_driver(own, ray)


def _wrap_init(own: Patches, by_variable: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        # In local mode there are no workers, and Ray can't take a function in a runtime_env.
        if not own.active or sys.modules["ray"].is_initialized() or kwargs.get("local_mode"):
            return original(*args, **kwargs)
        client = False
        with guard("preparing ray.init"):
            client = _prepare(args, kwargs)
        with _environment(by_variable=by_variable and not client):
            result = original(*args, **kwargs)
        with guard("start of the run"):
            run.start()
        return result

    return init


def _prepare(args: Any, kwargs: dict[str, Any]) -> bool:
    """Change the arguments where Ray won't ask; returns whether it is a Ray Client's call."""
    address = args[0] if args else kwargs.get("address")
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    if isinstance(address, str) and "://" in address:
        say("a Ray Client's workers are reached by verl's plugins alone: those that import verl >= 0.9.0")
        found = dict(kwargs.get("runtime_env") or {})
        kwargs["runtime_env"] = {**found, "env_vars": {**worker_environment(os.environ), **found.get("env_vars", {})}}
        return True
    of_job = getattr(kwargs.get("job_config"), "runtime_env", None)
    if of_job and not kwargs.get("runtime_env"):
        kwargs["runtime_env"] = of_job  # Ray would replace it by what we return
    return False


def _wrap_last_look(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def maybe_modify_runtime_env(*args: Any, **kwargs: Any) -> Any:
        runtime_env = original(*args, **kwargs)
        if own.active:
            with guard("runtime_env"):
                return reaching(runtime_env)
        return runtime_env

    return maybe_modify_runtime_env


def runtime_env_hook(runtime_env: Any) -> Any:
    """For RAY_RUNTIME_ENV_HOOK: the user's hook first, whose exceptions are the user's, then what workers need."""
    _set(_HOOK, _theirs)  # before Ray starts daemons, which would inherit ours
    if _theirs:
        module, _, name = _theirs.rpartition(".")
        runtime_env = getattr(importlib.import_module(module), name)(runtime_env)
    with guard("runtime_env"):
        return reaching(runtime_env)
    return runtime_env


def reaching(runtime_env: Any) -> dict[str, Any]:
    """A runtime_env with our variables and set-up function; what it already has, it keeps."""
    found = dict(runtime_env or {})
    variables = dict(found.get("env_vars") or {})
    found["env_vars"] = {**worker_environment(os.environ), **variables}
    # A submitted job's set-up function is a variable by now, and Ray refuses another: workers come by verl's plugin.
    if _SETUP_VARIABLE not in variables:
        found[_SETUP] = carried.worker_setup(found.get(_SETUP), _pickled_hooks())
    return found


def _pickled_hooks() -> bytes | None:
    """The user's hooks, as Ray pickles functions; None if there are none, or they can't be pickled."""
    hooks: dict[str, Any] = getattr(sys.modules.get("verl_otel.telemetry.hooks"), "given", dict)()
    if not hooks:
        return None
    try:
        return bytes(sys.modules["ray"].cloudpickle.dumps(hooks))
    except Exception as error:  # noqa: BLE001 - pickling raises whatever an object raises
        say(f"the hooks given to instrument() can't be pickled and act in this process alone: {error}")
        return None


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that workers get: OTEL_* and VERL_OTEL_*, without secrets and what names one process.

    Ray shows a runtime_env in its logs and dashboard, so no header or password may be in it: a worker reads its node's
    own environment, or VERL_OTEL_HEADERS_FILE.
    """
    found = {
        name: value
        for name, value in environ.items()
        if name.startswith(("OTEL_", PREFIX)) and (name in OURS or not SECRET_NAME.search(name))
    }
    for name in [one for one in found if one.endswith("ENDPOINT") and without_secrets(found[one]) != found[one]]:
        # A worker on this host has it from its environment; one elsewhere needs it in its node's.
        del found[name]
    if attributes := found.pop("OTEL_RESOURCE_ATTRIBUTES", ""):
        shared = [one for one in attributes.split(",") if not one.strip().startswith(PER_PROCESS)]
        found["OTEL_RESOURCE_ATTRIBUTES"] = ",".join(shared)
    return {**found, f"{PREFIX}ENABLED": "true", f"{PREFIX}ROLE": "worker"}


def in_ray_worker() -> bool:
    """Whether this is a worker process of Ray's, however it was reached."""
    worker = getattr(getattr(sys.modules.get("ray"), "_private", None), "worker", None)
    mode = getattr(getattr(worker, "global_worker", None), "mode", None)
    return mode is not None and mode == getattr(worker, "WORKER_MODE", None)


def pickle_by_value() -> None:
    """Have Ray take what stands in `carried` along, so that a process without this package can run it."""
    sys.modules["ray"].cloudpickle.register_pickle_by_value(carried)


def run_id() -> str:
    """The run's identity: given in VERL_OTEL_RUN_ID, or made now and put there for every process that follows."""
    global _made
    if not (found := os.environ.get(_RUN_ID, "")):
        found = _made = _of_torchrun() or f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{token_hex(3)}"
        os.environ[_RUN_ID] = found
    return found


def _of_torchrun() -> str | None:
    """One identity for all ranks that one torchrun started on this host: made of its process's start and number."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    with guard("reading torchrun's process"):
        fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        # proc(5): the process's start in clock ticks is field 22, counted from 1; two are cut off here.
        started = int(booted.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return f"{datetime.fromtimestamp(started, timezone.utc):%Y%m%d-%H%M%S}-{os.getppid():06x}"
    return None


def forget_run_id() -> None:
    """Take an identity that was made here out of the environment again."""
    global _made
    if _made is not None and os.environ.get(_RUN_ID) == _made:
        del os.environ[_RUN_ID]
        os.environ.pop(_ATTEMPT, None)
    _made = None


def adopt(run_id: str, attempt: int) -> None:
    """Take the identity of a run that is resumed, as if it had been made here."""
    global _made
    _made = run_id
    os.environ[_RUN_ID], os.environ[_ATTEMPT] = run_id, str(attempt)


def given_run_id() -> str | None:
    """The identity that the user gave, if not this process made it."""
    found = os.environ.get(_RUN_ID)
    return found if found != _made else None


@contextlib.contextmanager
def _environment(*, by_variable: bool) -> Iterator[None]:
    """While Ray starts: auto-instrumentation kept from Ray's own daemons, and our hook in place if it needs one.

    A local cluster's daemons inherit PYTHONPATH; with opentelemetry-instrument's folder in it each would instrument
    itself, for 0.6 s and nothing to tell. Workers are reached by the hook.
    """
    global _theirs
    before = {name: os.environ.get(name) for name in (_HOOK, "PYTHONPATH")}
    with guard("preparing Ray's environment"):
        _theirs = before[_HOOK] if before[_HOOK] != _OURS else None
        if by_variable:
            os.environ[_HOOK] = _OURS
        if path := before["PYTHONPATH"]:
            kept = [one for one in path.split(os.pathsep) if Path(one).parts[-3:] != _AUTO]
            os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    try:
        yield
    finally:
        for name, value in before.items():
            _set(name, value)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


_AUTO: Final = ("opentelemetry", "instrumentation", "auto_instrumentation")
