"""The trainer's side of rollouts: the buffer it waits at and takes batches from, and what it learns of them."""

import functools
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.telemetry import batches, groups
from verl_otel.telemetry.batches import Taken

_NAME: Final = "verl_buffers"
_VALIDATION: Final = "val"
_PADDING: Final = re.compile("pad[0-9a-f]{32}")
"""uid of the rows that V1 adds to make a batch divisible."""
_own: Final = patches(_NAME)


def wrap_look(original: Callable[..., Any]) -> Callable[..., Any]:
    """The buffer looked at what its rollouts have come to."""

    @functools.wraps(original)
    def look(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if _own.active:
            with guard("reading the buffer"):
                for partition, states in read_groups(self).items():
                    batches.looked(states, validation=partition == _VALIDATION)
        return result

    return look


def read_groups(buffer: Any) -> dict[str, dict[str, int]]:
    """Groups by partition and state."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for state, keys in (
        (batches.PENDING, buffer.pending_keys),
        (batches.STARTED, buffer.running_keys),
        (batches.FINISHED, buffer.finished_keys),
        (batches.FAILED, buffer.failure_keys),
    ):
        for partition in ("train", _VALIDATION):
            found[partition][state] = len(keys.get(partition, ()))
    return found


def wrap_sample(original: Callable[..., Any]) -> Callable[..., Any]:
    """The buffer gave the trainer a batch."""

    @functools.wraps(original)
    def sample(self: Any, global_steps: Any, partition_id: Any, batch_size: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, global_steps, partition_id, batch_size, *args, **kwargs)
        if _own.active:
            with guard("reading a batch"):
                validation = partition_id == _VALIDATION
                batches.taken(read_batch(result[0]), int(global_steps), int(batch_size), validation=validation)
        return result

    return sample


def read_batch(batch: Any) -> list[Taken]:
    """What a KVBatchMeta names: keys are `<uid>_<session>_<output>`."""
    found = []
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        uid, session, output = key.rsplit("_", 2)
        oldest, newest = tag.get("min_global_steps"), tag.get("max_global_steps")
        found.append(Taken(uid, int(session), int(output), _int(oldest), _int(newest)))
    return found


def _int(value: Any) -> int | None:
    return int(value) if value is not None else None


def wrap_advantage(original: Callable[..., Any]) -> Callable[..., Any]:
    """The trainer computes advantages: within each group by most estimators."""

    @functools.wraps(original)
    def compute_advantage(*args: Any, **kwargs: Any) -> Any:
        data = original(*args, **kwargs)
        if _own.active:
            with guard("reading rewards"):
                groups.trained(read_rewards(data))
        return data

    return compute_advantage


def read_rewards(data: Any) -> dict[str, list[float]]:
    """Rewards by uid, from a DataProto, without V1's padding; a response's reward is the sum over its tokens."""
    found: dict[str, list[float]] = defaultdict(list)
    scores = data.batch["token_level_scores"].sum(-1).tolist()
    for uid, score in zip(data.non_tensor_batch["uid"], scores, strict=True):
        if not _PADDING.fullmatch(str(uid)):
            found[str(uid)].append(score)
    return found


_BUFFER: Final = "verl.trainer.ppo.v1.replay_buffer"
_SAMPLED: Final = ("global_steps", "partition_id", "batch_size")


class BuffersInstrumentor(VerlInstrumentor):
    """Progress and batches, from V1's replay buffer; groups, where advantages are computed."""

    name = _NAME
    targets = (
        Target(_BUFFER, "ReplayBuffer._sync_metadata_from_transfer_queue", wrap_look, since="0.9.0"),
        Target(_BUFFER, "ReplayBuffer.sample", wrap_sample, _SAMPLED, since="0.9.0"),
        Target(_BUFFER, "ReplayBufferAsync.sample", wrap_sample, _SAMPLED, since="0.9.0"),
        Target("verl.trainer.ppo.ray_trainer", "compute_advantage", wrap_advantage, ("data",)),
        Target("verl.trainer.ppo.v1.utils", "compute_advantage", wrap_advantage, ("data",), since="0.9.0"),
        Target("verl.experimental.separation.ray_trainer", "compute_advantage", wrap_advantage, ("data",)),
    )
