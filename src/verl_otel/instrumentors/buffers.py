"""The trainer's side of rollouts: the buffer it waits at and takes batches from, and what it learns of them."""

import re
from collections import defaultdict
from typing import Any, Final

from verl_otel.instrumentors.base import Target, VerlInstrumentor, read_after
from verl_otel.instrumentors.reading import integer
from verl_otel.patching import patches
from verl_otel.telemetry import batches, groups, origins, rewards
from verl_otel.telemetry.batches import Taken

_NAME: Final = "verl_buffers"
_VALIDATION: Final = "val"
_PADDING: Final = re.compile("pad[0-9a-f]{32}")
"""uid of the rows that V1 adds to make a batch divisible."""
_own: Final = patches(_NAME)


def tell_look(_: Any, buffer: Any) -> None:
    """The buffer looked at what its rollouts have come to."""
    for partition, states in read_groups(buffer).items():
        batches.looked(states, validation=partition == _VALIDATION)


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


def tell_batch(
    result: Any, _: Any, global_steps: Any, partition_id: Any, batch_size: Any, *__: Any, **___: Any
) -> None:
    """The buffer gave the trainer a batch."""
    batch, validation = read_batch(result[0]), partition_id == _VALIDATION
    batches.taken(batch, int(global_steps), int(batch_size), validation=validation)
    if not validation:
        rewards.trained([one.origin.parts for one in batch])


def read_batch(batch: Any) -> list[Taken]:
    """What a KVBatchMeta names: keys are `<uid>_<session>_<output>`."""
    found = []
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        uid, session, output = key.rsplit("_", 2)
        oldest, newest = tag.get("min_global_steps"), tag.get("max_global_steps")
        origin = origins.read(tag.get(origins.TAG))
        found.append(Taken(uid, int(session), int(output), integer(oldest), integer(newest), origin))
    return found


def tell_rewards(data: Any, /, *_: Any, **__: Any) -> None:
    """The trainer computed advantages: within each group by most estimators."""
    groups.trained(read_rewards(data))
    if parts := read_parts(data):
        rewards.trained(parts)


def read_rewards(data: Any) -> dict[str, list[float]]:
    """Rewards by uid, from a DataProto, without V1's padding; a response's reward is the sum over its tokens."""
    found: dict[str, list[float]] = defaultdict(list)
    scores = data.batch["token_level_scores"].sum(-1).tolist()
    for uid, score in zip(data.non_tensor_batch["uid"], scores, strict=True):
        if not _PADDING.fullmatch(str(uid)):
            found[str(uid)].append(score)
    return found


def read_parts(data: Any) -> list[dict[str, float]]:
    """Score and numeric fields beside it of each trajectory, where the batch has them; V1 keeps them elsewhere."""
    keys = data.meta_info.get("reward_extra_keys") or ()
    columns = {key: data.non_tensor_batch[key] for key in keys if key in data.non_tensor_batch}
    if not columns:
        return []
    scores = data.batch["token_level_scores"].sum(-1).tolist()
    return [
        {rewards.SCORE: score, **rewards.numeric({key: column[row] for key, column in columns.items()})}
        for row, score in enumerate(scores)
    ]


_batch: Final = read_after(_own, "reading a batch", tell_batch)
_rewards: Final = read_after(_own, "reading rewards", tell_rewards)
_BUFFER: Final = "verl.trainer.ppo.v1.replay_buffer"
_SAMPLED: Final = ("global_steps", "partition_id", "batch_size")


class BuffersInstrumentor(VerlInstrumentor):
    """Progress and batches, from V1's replay buffer; groups, where advantages are computed."""

    name = _NAME
    targets = (
        Target(
            _BUFFER,
            "ReplayBuffer._sync_metadata_from_transfer_queue",
            read_after(_own, "reading the buffer", tell_look),
            since="0.9.0",
        ),
        Target(_BUFFER, "ReplayBuffer.sample", _batch, _SAMPLED, since="0.9.0"),
        Target(_BUFFER, "ReplayBufferAsync.sample", _batch, _SAMPLED, since="0.9.0"),
        Target("verl.trainer.ppo.ray_trainer", "compute_advantage", _rewards, ("data",)),
        Target("verl.trainer.ppo.v1.utils", "compute_advantage", _rewards, ("data",), since="0.9.0"),
        Target("verl.experimental.separation.ray_trainer", "compute_advantage", _rewards, ("data",)),
    )
