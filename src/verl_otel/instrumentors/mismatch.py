"""Where the trainer compares its log-probabilities with the engine's (`rollout.calculate_log_probs`)."""

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor, read_after
from verl_otel.patching import patches
from verl_otel.telemetry import mismatch, scope

_NAME: Final = "verl_mismatch"
_own: Final = patches(_NAME)
_PADDED: Final = "padding"
_versions: Final = ContextVar[Sequence[Any]]("verl-otel-versions", default=())
"""Newest version of the weights of each row of the batch at hand, where its data don't say."""


def wrap_log_prob(original: Callable[..., Any]) -> Callable[..., Any]:
    """V1 keeps versions beside its batch."""

    @functools.wraps(original)
    def compute_old_log_prob(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        token = None
        if _own.active:
            with guard("reading a batch's versions"):
                token = _versions.set(
                    [_PADDED if tag.get("is_padding") else tag.get("max_global_steps") for tag in batch.tags]
                )
        try:
            return original(self, batch, *args, **kwargs)
        finally:
            if token is not None:
                _versions.reset(token)

    return compute_old_log_prob


def tell(_: Any, data: Any) -> None:
    """verl compared two log-probabilities of a DataProto: tell of it, where it is known which weights made them."""
    versions, step = read_versions(data), scope.current().step
    if versions and step is not None and None not in versions:
        rows = zip(read_differences(data), versions, strict=True)
        real = [(difference, version) for difference, version in rows if version is not _PADDED]
        # Weights of step s - 1 are the newest that a trajectory of step s can be made with.
        mismatch.measured([one for one, _ in real], [step - 1 - int(version) for _, version in real])


def read_versions(data: Any) -> list[Any]:
    """The newest version of each row."""
    found = data.non_tensor_batch.get("max_global_steps") if data.non_tensor_batch else None
    return list(found if found is not None else _versions.get())


def read_differences(data: Any) -> list[float]:
    """Of each row, the mean over its tokens of |p(engine) - p(trainer)|; as verl's `rollout_probs_diff_mean` of it."""
    engine, trainer = data.batch["rollout_log_probs"].exp(), data.batch["old_log_probs"].exp()
    mask = data.batch["response_mask"][:, -engine.shape[1] :]
    found: list[float] = (((engine - trainer).abs() * mask).sum(-1) / mask.sum(-1).clamp(min=1)).tolist()
    return found


_compare: Final = read_after(_own, "reading a mismatch", tell)


class MismatchInstrumentor(VerlInstrumentor):
    """The mismatch of engine and trainer, from verl's own comparison."""

    name = _NAME
    targets = (
        Target("verl.utils.debug.metrics", "calculate_debug_metrics", _compare, ("data",)),
        Target("verl.trainer.ppo.v1.trainer_base", "calculate_debug_metrics", _compare, ("data",), since="0.9.0"),
        Target(
            "verl.trainer.ppo.v1.trainer_base",
            "PPOTrainer._compute_old_log_prob",
            wrap_log_prob,
            ("batch",),
            since="0.9.0",
        ),
    )
