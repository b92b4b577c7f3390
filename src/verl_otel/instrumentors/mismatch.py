"""Where the trainer compares its log-probabilities with the engine's (`rollout.calculate_log_probs`)."""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor, read_after
from verl_otel.instrumentors.reading import integer
from verl_otel.patching import patches
from verl_otel.telemetry import mismatch, origins, scope
from verl_otel.telemetry.mismatch import Compared
from verl_otel.telemetry.origins import Origin

_NAME: Final = "verl_mismatch"
_own: Final = patches(_NAME)


class Row(NamedTuple):
    """What V1 keeps beside a row of its batch; `version`: newest of the weights that made it."""

    version: int | None
    origin: Origin
    padding: bool


_rows: Final = ContextVar[Sequence[Row]]("verl-otel-rows", default=())


def wrap_log_prob(original: Callable[..., Any]) -> Callable[..., Any]:
    """V1 keeps versions beside its batch."""

    @functools.wraps(original)
    def compute_old_log_prob(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        token = None
        if _own.active:
            with guard("reading a batch's tags"):
                token = _rows.set([read_tag(tag) for tag in batch.tags])
        try:
            return original(self, batch, *args, **kwargs)
        finally:
            if token is not None:
                _rows.reset(token)

    return compute_old_log_prob


def read_tag(tag: Mapping[str, Any]) -> Row:
    """What a row's tag says."""
    version, origin = integer(tag.get("max_global_steps")), origins.read(tag.get(origins.TAG))
    return Row(version, origin, bool(tag.get("is_padding")))


def tell(_: Any, data: Any) -> None:
    """verl compared two log-probabilities of a DataProto: tell of it, where it is known which weights made them."""
    rows, step = read_rows(data), scope.current().step
    if rows and step is not None:
        compared = [
            # Weights of step s - 1 are the newest that a trajectory of step s can be made with.
            Compared(number, difference, None if row.version is None else step - 1 - row.version, row.origin)
            for number, (difference, row) in enumerate(zip(read_differences(data), rows, strict=True))
            if not row.padding
        ]
        mismatch.measured(compared, lambda row: read_tokens(data, row))


def read_rows(data: Any) -> Sequence[Row]:
    """What is known of each row."""
    found = data.non_tensor_batch.get("max_global_steps") if data.non_tensor_batch else None
    return _rows.get() if found is None else [Row(integer(one), Origin(), padding=False) for one in found]


def read_differences(data: Any) -> list[float]:
    """Of each row, the mean over its tokens of |p(engine) - p(trainer)|; as verl's `rollout_probs_diff_mean` of it."""
    engine, trainer = data.batch["rollout_log_probs"].exp(), data.batch["old_log_probs"].exp()
    mask = data.batch["response_mask"][:, -engine.shape[1] :]
    found: list[float] = (((engine - trainer).abs() * mask).sum(-1) / mask.sum(-1).clamp(min=1)).tolist()
    return found


def read_tokens(data: Any, row: int) -> list[float]:
    """Of each token of a row's response, what a tool put in among them: log p(trainer) - log p(engine), else 0."""
    engine, trainer = data.batch["rollout_log_probs"][row], data.batch["old_log_probs"][row]
    mask = data.batch["response_mask"][row, -engine.shape[0] :]
    length = int(mask.nonzero().max()) + 1 if mask.any() else 0
    found: list[float] = ((trainer - engine) * mask)[:length].tolist()
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
