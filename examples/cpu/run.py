"""One real `python -m verl.trainer.main_ppo` (GRPO, Ray, vLLM) on a CPU, as a process that cleans up after itself.

Used by the demo and by the end-to-end tests. Everything stays on loopback, and nothing is left running.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
KIT = Path(sys.prefix) / "kit"

BRIDGES = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # verl registers its FSDP engines for accelerators only
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": "127.0.0.1",
    # Ray would turn on tokens and swap loopback for the host's address.
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HYDRA_FULL_ERROR": "1",
    "PYTHONUNBUFFERED": "1",
}
# The user's own of these would change the run, and none of them is needed.
DROPPED = ("PYTHONPATH", "PYTHONHOME", "RAY_", "VLLM_", "VERL_", "OTEL_", "CUDA_", "MASTER_", "RANK", "WORLD_SIZE")
PPO = "verl.trainer.main_ppo"
SFT = "verl.trainer.sft_trainer"
NO_PROXY = "127.0.0.1,localhost,::1"


@dataclass
class Run:
    """What is run and where it writes; `steps` training steps, validation before, in between and after."""

    steps: int = 3
    door: str = "auto"
    """`auto` (opentelemetry-instrument), `plugin` (VERL_OTEL_ENABLED), `program` (a launcher of one's own), `off`.

    `local` is `verl-otel run`, whose backend keeps its data in the folder local.
    """
    module: str = PPO
    """What is run, as `python -m` would; `SFT` as torchrun would, on two ranks."""
    address: str | None = None
    """Of a Ray cluster that is up already; else the run starts one of its own."""
    environment: dict[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    logs: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="verl-otel-run-")))

    @property
    def metrics(self) -> Path:
        """verl's own file logger."""
        return self.logs / "metrics.jsonl"

    @property
    def output(self) -> Path:
        """Everything the run printed."""
        return self.logs / "output.txt"


class Running:
    """A run in progress; leaving the context ends what is left of it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        # Ray puts sockets below its folder, and a socket's path may have 107 bytes, whatever the checkout's has.
        self._short = Path(tempfile.mkdtemp(prefix="vo-", dir="/tmp"))
        self._mark = f"EXAMPLE_RUN={secrets.token_hex(8)}"
        run.logs.mkdir(parents=True, exist_ok=True)
        self._output = run.output.open("wb")
        environment = self._environment()
        self.process = subprocess.Popen(
            [*_launcher(run), *arguments(run, self._short)],
            env=environment,
            cwd=run.logs,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # Started from a shell's background, a program inherits that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self) -> None:
        """Interrupt the run if it goes on, wait a little, and end every process that came of it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        # Again until none is there: what is about to be killed may start another.
        deadline = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        with contextlib.suppress(ChildProcessError, subprocess.TimeoutExpired):
            self.process.wait(5)
        self._output.close()
        shutil.rmtree(self._short, ignore_errors=True)

    def processes(self) -> list[int]:
        """Processes that came of this run, found by a mark in their environment."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self._mark.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def named(self, title: str) -> list[int]:
        """Those of them whose title, as Ray sets it, begins so: `ray::WorkerDict`."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode()):
                    found.append(pid)
        return found

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)}
        for name in ("no_proxy", "NO_PROXY"):
            kept[name] = ",".join(filter(None, (kept.get(name), NO_PROXY)))
        name, value = self._mark.split("=")
        address = {"RAY_ADDRESS": self.run.address} if self.run.address else {}
        files = {**address, "VERL_FILE_LOGGER_PATH": str(self.run.metrics), "TMPDIR": str(self._short)}
        path = os.pathsep.join((str(Path(sys.prefix) / "bin"), kept.get("PATH", os.defpath)))
        return {**kept, **BRIDGES, **QUIET, **files, "PATH": path, **self.run.environment, name: value} | (
            {"VERL_OTEL_ENABLED": "true"} if self.run.door == "plugin" else {}
        )


def _launcher(run: Run) -> list[str]:
    folder = Path(sys.prefix) / "bin"
    python = str(folder / "python")
    if run.door == "program":
        return [python, str(HERE / "launcher.py"), run.module]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"] if run.module == SFT else []
    before = {
        "auto": [str(folder / "opentelemetry-instrument")],
        "local": [str(folder / "verl-otel"), "run", "--folder", str(run.logs / "local"), "--"],
    }
    return [*before.get(run.door, []), python, *torchrun, "-m", run.module]


def arguments(run: Run, ray_folder: Path) -> list[str]:
    """The overrides of verl's configuration that the run needs."""
    common = f"""
        trainer.device=cpu
        trainer.n_gpus_per_node=1
        trainer.nnodes=1
        trainer.logger=[console,file]
        trainer.project_name=verl-otel
        trainer.experiment_name=cpu-demo
        trainer.test_freq=2
        trainer.save_freq=-1
        trainer.resume_mode=disable
        trainer.total_epochs=10
        trainer.total_training_steps={run.steps}
        trainer.default_local_dir={run.logs}/checkpoints
        hydra.run.dir={run.logs}/hydra
    """
    own = _sft() if run.module.startswith(SFT) else _ppo() + _dumps(run) + ("" if run.address else _ray(ray_folder))
    return [*common.split(), *own.split(), *run.overrides]


def _dumps(run: Run) -> str:
    """verl's own record of what was generated, which trainers apart from their rollouts can't write."""
    if run.module != PPO:
        return ""
    return f"""
        trainer.rollout_data_dir={run.logs}/rollouts
        trainer.validation_data_dir={run.logs}/validation
    """


def _ray(folder: Path) -> str:
    return f"""
        ray_kwargs.ray_init.num_cpus=64
        +ray_kwargs.ray_init.num_gpus=2
        +ray_kwargs.ray_init._node_ip_address=127.0.0.1
        +ray_kwargs.ray_init.object_store_memory=1000000000
        +ray_kwargs.ray_init.include_dashboard=False
        +ray_kwargs.ray_init._temp_dir={folder}/r
    """


def _sft() -> str:
    return f"""
        data.train_files={KIT}/data/sft-train.parquet
        data.val_files={KIT}/data/sft-test.parquet
        data.train_batch_size=4
        data.micro_batch_size_per_gpu=2
        data.use_dynamic_bsz=False
        data.max_length=64
        data.num_workers=0
        model.path={KIT}/model
        model.use_remove_padding=False
        model.enable_gradient_checkpointing=False
        +model.override_config.attn_implementation=eager
        engine.strategy=fsdp2
        engine.use_torch_compile=False
    """


def _ppo() -> str:
    """The smallest GRPO that trains, rolls out, rewards and validates."""
    return f"""
        algorithm.adv_estimator=grpo
        algorithm.use_kl_in_reward=False
        data.train_files={KIT}/data/train.parquet
        data.val_files={KIT}/data/test.parquet
        data.train_batch_size=4
        data.max_prompt_length=64
        data.max_response_length=32
        data.dataloader_num_workers=0
        data.filter_overlong_prompts=False
        actor_rollout_ref.model.path={KIT}/model
        actor_rollout_ref.model.use_remove_padding=False
        actor_rollout_ref.model.enable_gradient_checkpointing=False
        +actor_rollout_ref.model.override_config.attn_implementation=eager
        actor_rollout_ref.actor.strategy=fsdp2
        actor_rollout_ref.actor.optim.lr=1e-3
        actor_rollout_ref.actor.ppo_mini_batch_size=4
        actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4
        actor_rollout_ref.actor.use_kl_loss=False
        actor_rollout_ref.actor.use_torch_compile=False
        actor_rollout_ref.actor.fsdp_config.use_torch_compile=False
        actor_rollout_ref.rollout.name=vllm
        actor_rollout_ref.rollout.n=4
        actor_rollout_ref.rollout.tensor_model_parallel_size=1
        actor_rollout_ref.rollout.enforce_eager=True
        actor_rollout_ref.rollout.free_cache_engine=False
        +actor_rollout_ref.rollout.enable_sleep_mode=False
        actor_rollout_ref.rollout.gpu_memory_utilization=0.1
        actor_rollout_ref.rollout.max_model_len=128
        actor_rollout_ref.rollout.max_num_batched_tokens=512
        actor_rollout_ref.rollout.max_num_seqs=32
        actor_rollout_ref.rollout.disable_log_stats=False
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4
        actor_rollout_ref.rollout.agent.num_workers=1
        actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=64
        reward.num_workers=1
        reward.custom_reward_function.path={HERE}/kit/reward.py
        reward.custom_reward_function.name=compute_score
        trainer.val_before_train=True
        transfer_queue.backend.SimpleStorage.num_data_storage_units=1
    """
