"""A checkpoint engine over files, for trainers whose rollouts run apart: verl's own engines need NCCL or RDMA.

Chosen by `rollout.checkpoint_engine.backend=file` and `.custom_backend_module=verl_cpu_shim.checkpoint`. One host only.
"""

import asyncio
import os
import tempfile
import uuid

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileCheckpointEngine(CheckpointEngine):
    """The first actor rank writes one file; every rollout worker waits for it and reads it."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.is_master = is_master
        self.path = ""

    def prepare(self) -> dict:
        return {}

    @classmethod
    def build_topology(cls, actor_wg_world_size, rollout_world_size, metadata):
        path = os.path.join(tempfile.gettempdir(), f"weights-{uuid.uuid4().hex}")
        actors = {"path": [path] * actor_wg_world_size, "rank": list(range(actor_wg_world_size))}
        return actors, {"path": [path] * rollout_world_size, "rank": [-1] * rollout_world_size}

    def init_process_group(self, path: str, rank: int) -> None:
        self.path, self.is_master = path, rank == 0

    def finalize(self) -> None:
        if self.is_master and os.path.exists(self.path):
            os.remove(self.path)

    async def send_weights(self, weights, global_steps=None):
        # Every rank takes part in gathering a tensor; one writes.
        found = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        if self.is_master:
            torch.save(found, self.path + ".part")
            os.rename(self.path + ".part", self.path)
        return {}

    async def receive_weights(self, global_steps=None):
        while not os.path.exists(self.path):
            await asyncio.sleep(0.02)
        for name, tensor in torch.load(self.path, weights_only=True).items():
            yield name, tensor
