"""What verl's configuration says of a run: read as a plain mapping, missing parts left empty."""

import contextlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from verl_otel.telemetry.run import ProfilerPlan, RunInfo
from verl_otel.version import __version__

_DISTRIBUTIONS: Final = ("verl", "ray", "torch", "vllm", "sglang", "transformers")


def as_mapping(config: Any) -> Mapping[str, Any] | None:
    """verl's configuration as a resolved plain mapping: a mapping as it is, an OmegaConf container converted."""
    if config is None or isinstance(config, dict):
        return config
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else None


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


def _read_trainer(config: Mapping[str, Any]) -> str:
    if _get(config, "trainer.use_v1") is True:
        return f"v1/{_get(config, 'trainer.v1.trainer_mode')}"
    return "legacy" if "actor_rollout_ref" in config else ""


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


def _versions() -> dict[str, str]:
    found = {"verl_otel": __version__}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
