"""What verl's configuration says of a run: read as a plain mapping, missing parts left empty."""

import contextlib
import functools
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from verl_otel.telemetry.run import ProfilerPlan, RunInfo
from verl_otel.version import __version__

_DISTRIBUTIONS: Final = ("verl", "ray", "torch", "vllm", "sglang", "transformers")


def as_mapping(config: Any) -> Mapping[str, Any] | None:
    """verl's configuration as a plain mapping: a mapping as it is, an OmegaConf container resolved part by part.

    A part that can't be resolved stays as it is written. Hydra's own part is left out.
    """
    if config is None or isinstance(config, dict):
        return config
    from omegaconf import Container, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    written, found = OmegaConf.to_container(config, resolve=False), {}
    if not isinstance(written, dict):
        return None
    for key in written.keys() - {"hydra"}:
        found[str(key)] = written[key]
        with contextlib.suppress(OmegaConfBaseException):
            part = config[key]
            found[str(key)] = OmegaConf.to_container(part, resolve=True) if isinstance(part, Container) else part
    return found


def read_run(config: Any, project: Any = "", experiment: Any = "") -> RunInfo:
    """What the run is. `config`: of verl's trainer, resolved or not, or None."""
    found = as_mapping(config) or {}
    return RunInfo(
        project=str(project or _get(found, "trainer.project_name")),
        experiment=str(experiment or _get(found, "trainer.experiment_name")),
        algorithm=str(_get(found, "algorithm.adv_estimator")),
        model=str(_get(found, "actor_rollout_ref.model.path") or _get(found, "model.path")),
        trainer=_read_trainer(found),
        engine=str(_get(found, "actor_rollout_ref.rollout.name")),
        versions=_versions(),
        profiler=_read_profiler(found),
    )


def read_resume_folder(config: Any) -> Path | None:
    """The folder of checkpoints that this run will go on from, as verl decides it; None for one that starts anew.

    A checkpoint of another folder makes a run of its own, which only begins where that one stood.
    """
    found = as_mapping(config) or {}
    mode, path = _get(found, "trainer.resume_mode"), _get(found, "trainer.resume_from_path")
    if not (named := _get(found, "trainer.default_local_dir")):
        return None
    folder = Path(str(named)).absolute()
    if mode == "auto":
        return folder if (folder / "latest_checkpointed_iteration.txt").exists() else None
    return folder if mode == "resume_path" and path and Path(str(path)).absolute().parent == folder else None


def _read_trainer(config: Mapping[str, Any]) -> str:
    if "async_training" in config:
        return "fully_async"
    if "actor_rollout_ref" not in config:
        return "sft" if "engine" in config else ""
    if "rollout" in config:  # a pool of its own for rollouts; the V1 switches beside it are not read
        return "one_step_off"
    return f"v1/{_get(config, 'trainer.v1.trainer_mode')}" if _get(config, "trainer.use_v1") is True else "legacy"


def _read_profiler(config: Mapping[str, Any]) -> ProfilerPlan | None:
    tool, steps = _get(config, "global_profiler.tool"), _get(config, "global_profiler.steps")
    if not tool or not steps:
        return None
    actor = "actor_rollout_ref.actor.profiler"
    ranks = () if _get(config, f"{actor}.all_ranks") is True else _get(config, f"{actor}.ranks") or (0,)
    return ProfilerPlan(
        str(tool),
        tuple(int(one) for one in steps),
        tuple(int(one) for one in ranks),
        str(_get(config, "global_profiler.save_path")),
    )


def _get(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or an empty text."""
    found: Any = config
    for part in path.split("."):
        if not isinstance(found, Mapping) or (found := found.get(part)) is None:
            return ""
    return found


@functools.cache
def _versions() -> Mapping[str, str]:
    found = {"verl_otel": __version__}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
