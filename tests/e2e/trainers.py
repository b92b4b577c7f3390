"""verl's trainers as they run on a CPU: program, overrides, and what its log and spans are checked by."""

from dataclasses import dataclass, field
from pathlib import Path

from run import KIT, SFT

from contract.wheels import unpacked

APART = (
    # Trainer and rollouts on a pretended GPU each, weights over files: verl's own ways need NCCL or RDMA.
    "actor_rollout_ref.rollout.checkpoint_engine.backend=file",
    "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=verl_cpu_shim.checkpoint",
)
POOLS = ("actor_rollout_ref.hybrid_engine=False", "rollout.nnodes=1", "rollout.n_gpus_per_node=1")
EXPERIMENTAL = "verl.experimental"


USERS = Path(__file__).parent / "users"
REWARDS = Path(__file__).parent / "rewards.py"


def reward(name: str) -> tuple[str, str]:
    """A reward function of `rewards.py`."""
    return f"reward.custom_reward_function.path={REWARDS}", f"reward.custom_reward_function.name={name}"


@dataclass(frozen=True)
class Trainer:
    """`kind`: as `verl.run.info` names it. `roots`: outside of steps. `ranks`: of the training workers.

    `programs`: that train together, each with steps of its own, as torchrun starts them.

    `warmup`: batches that it dispatches before its first step, beyond what it trains on.

    `model_calls`: of each trajectory of its `agent_loop`.

    `on_cluster`: it calls `ray.init()` as it is, so that a cluster with pretended GPUs must be up already.
    """

    kind: str
    overrides: tuple[str, ...] = ()
    module: str = "verl.trainer.main_ppo"
    environment: dict[str, str] = field(default_factory=dict)
    asynchronous: bool = False
    roots: tuple[str, ...] = ("verl.init", "verl.validate")
    phases: tuple[str, ...] = ("gen", "adv", "update_actor", "update_weights", "testing")
    workers: tuple[str, ...] = ("update_actor", "update_weights")
    ranks: int = 1
    programs: int = 1
    on_cluster: bool = False
    warmup: int = 0
    agent_loop: str = "single_turn_agent"
    model_calls: int = 1
    user_spans: tuple[str, ...] = ()


TRAINERS = {
    "ppo": Trainer(
        "v1/sync",
        (
            "algorithm.adv_estimator=gae",
            "algorithm.use_kl_in_reward=True",
            "actor_rollout_ref.actor.use_kl_loss=True",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
            "critic.strategy=fsdp2",
            f"critic.model.path={KIT}/model",
            "critic.model.use_remove_padding=False",
            "critic.model.enable_gradient_checkpointing=False",
            "critic.ppo_micro_batch_size_per_gpu=4",
            *reward("traced"),
            f"actor_rollout_ref.rollout.agent.agent_loop_config_path={USERS}/agent_loops.yaml",
            "actor_rollout_ref.rollout.agent.default_agent_loop=second_thoughts",
        ),
        environment={"PYTHONPATH": str(USERS)},
        agent_loop="second_thoughts",
        model_calls=2,
        user_spans=("my reward",),
        phases=("gen", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor", "testing"),
        workers=("compute_ref_log_prob", "infer_batch", "train_mini_batch", "update_actor"),
    ),
    "colocate_async": Trainer(
        "v1/colocate_async",
        ("trainer.v1.trainer_mode=colocate_async",),
        warmup=1,
        roots=("verl.init", "verl.validate", "verl.warmup"),
    ),
    "separate_async": Trainer(
        "v1/separate_async",
        (
            "trainer.v1.trainer_mode=separate_async",
            "trainer.v1.separate_async.parameter_sync_step=1",
            "actor_rollout_ref.rollout.nnodes=1",
            "actor_rollout_ref.rollout.n_gpus_per_node=1",
            *APART,
        ),
        roots=("verl.init", "verl.validate", "verl.warmup"),
        workers=("update_actor", "update_weights", "execute_checkpoint_engine"),
    ),
    "legacy": Trainer("legacy", ("trainer.use_v1=False",)),
    "one_step_off": Trainer(
        "one_step_off",
        ("hydra.searchpath=[pkg://verl.trainer.config]", *POOLS, *APART),
        f"{EXPERIMENTAL}.one_step_off_policy.main_ppo",
    ),
    "fully_async": Trainer(
        "fully_async",
        (
            *POOLS,
            *APART,
            "data.train_batch_size=0",
            "data.gen_batch_size=1",
            "rollout.total_rollout_steps=16",
            "async_training.trigger_parameter_sync_step=2",
            "async_training.staleness_threshold=1",
            "algorithm.rollout_correction.bypass_mode=True",
            "actor_rollout_ref.rollout.calculate_log_probs=True",
        ),
        f"{EXPERIMENTAL}.fully_async_policy.fully_async_main",
        asynchronous=True,
        roots=("verl.validate",),
        phases=("gen", "adv", "update_actor"),
    ),
    "sft": Trainer(
        "sft",
        ("trainer.n_gpus_per_node=2",),
        SFT,
        roots=("verl.init",),
        phases=("data", "testing", "save_checkpoint"),
        workers=("train_batch", "infer_batch"),
        ranks=2,
        programs=2,
    ),
    "sft_ray": Trainer(
        "sft",
        ("trainer.n_gpus_per_node=2",),
        "verl.trainer.sft_trainer_ray",
        roots=("verl.init",),
        phases=("data", "testing", "save_checkpoint"),
        workers=("train_batch", "infer_batch"),
        ranks=2,
        on_cluster=True,
    ),
}


def older(version: str) -> dict[str, str]:
    """Environment in which an older verl is found first."""
    return {"PYTHONPATH": str(unpacked(version))}
