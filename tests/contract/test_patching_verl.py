"""Patching the real verl, in every order of import, instrument and uninstrument, each in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from verl_otel.door import INSTRUMENTORS

pytestmark = pytest.mark.verl

PROGRAM = """
import importlib, json, sys
import verl_otel
from verl_otel.door import INSTRUMENTORS

MODULES = [
    "verl.utils.tracking", "verl.utils.config", "verl.utils.profiler.performance", "verl.utils.profiler.profile",
    "verl.single_controller.base.worker", "verl.single_controller.ray.base", "verl.workers.engine_workers",
    "verl.checkpoint_engine.base", "verl.experimental.agent_loop.agent_loop", "verl.workers.rollout.llm_server",
    "verl.experimental.agent_loop.tool_agent_loop", "verl.tools.base_tool", "verl.tools.function_tool",
    "verl.experimental.reward_loop.reward_loop", "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "verl.workers.rollout.vllm_rollout.vllm_rollout", "verl.trainer.ppo.v1.replay_buffer", "verl.trainer.ppo.v1.utils",
    "verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.trainer_base", "verl.trainer.ppo.v1.trainer_colocate_async",
    "verl.trainer.ppo.v1.trainer_separate_async", "transfer_queue", "ray", "ray.actor", "ray.remote_function",
]

def owners():
    for name in MODULES:
        module = sys.modules.get(name)
        if module is not None:
            yield name, module
            for key, found in list(vars(module).items()):
                if isinstance(found, type) and found.__module__ == name:
                    yield f"{name}.{key}", found

def is_ours(value):
    value = getattr(value, "__func__", value)
    code = getattr(value, "__code__", None)
    if code is not None and "verl_otel" in code.co_filename:
        return True
    inner = getattr(value, "__wrapped__", None)  # below a decorator of verl's
    return inner is not None and is_ours(inner)

def ours():
    every = ((f"{name}.{key}", value) for name, owner in owners() for key, value in list(vars(owner).items()))
    return sorted(name for name, value in every if is_ours(value))

def look():
    return {(name, key): value for name, owner in owners() for key, value in list(vars(owner).items())}

def do(step):
    if step == "import":
        import verl
        for name in MODULES:
            importlib.import_module(name)
    else:
        getattr(verl_otel, step)()

told = {}
for step in sys.argv[1].split(","):
    before = look()
    do(step)
    told.setdefault("ours", []).append(ours())
    if step == "import" and not told.get("clean"):
        told["clean"] = True
        clean = look()
after = look()
told["restored"] = [
    ".".join(key) for key in clean if key in after and after[key] is not clean[key] and not key[1].startswith("__")
]
told["added"] = [".".join(key) for key in set(after) - set(clean) if not key[1].startswith("__")]
told["instrumented"] = [kind.name for kind in INSTRUMENTORS if kind().is_instrumented_by_opentelemetry]
print("TOLD" + json.dumps(told))
"""

HOOKS = {
    "verl.utils.tracking.Tracking.__init__",
    "verl.utils.tracking.Tracking.log",
    "verl.utils.profiler.performance._timer",
    "verl.utils.profiler.profile.DistProfiler.start",
    "verl.utils.profiler.profile.DistProfiler.stop",
    "verl.single_controller.base.worker.Worker.__init__",
    "verl.workers.engine_workers.ActorRolloutRefWorker.update_actor",
    "verl.workers.engine_workers.ActorRolloutRefWorker.update_weights",
    "verl.workers.engine_workers.TrainingWorker.train_batch",
    "verl.checkpoint_engine.base.CheckpointEngineWorker.update_weights",
    "verl.experimental.agent_loop.agent_loop.AgentLoopWorker._run_agent_loop",
    "verl.experimental.agent_loop.agent_loop.AgentLoopWorker._compute_score",
    "verl.experimental.agent_loop.agent_loop.AgentLoopManager.generate_sequences",
    "verl.experimental.agent_loop.tool_agent_loop.ToolAgentLoop._call_tool",
    "verl.tools.base_tool.BaseTool.__init__",
    "verl.tools.function_tool.FunctionTool.call",
    "verl.experimental.reward_loop.reward_loop.RewardLoopWorker.compute_score",
    "verl.workers.rollout.llm_server.LLMServerClient.generate",
    "verl.workers.rollout.llm_server.LLMServerClient._acquire_server",
    "verl.workers.rollout.vllm_rollout.vllm_async_server.vLLMHttpServer.generate",
    "verl.workers.rollout.vllm_rollout.vllm_rollout.ServerAdapter.update_weights",
    "verl.trainer.ppo.v1.replay_buffer.ReplayBuffer.sample",
    "verl.trainer.ppo.v1.utils.compute_advantage",
    "transfer_queue.kv_batch_put",
    "verl.trainer.ppo.ray_trainer.RayPPOTrainer.fit",
    "verl.trainer.ppo.ray_trainer.RayPPOTrainer.init_workers",
    "verl.trainer.ppo.v1.trainer_base.PPOTrainer.fit",
    "verl.trainer.ppo.v1.trainer_base.PPOTrainer.init",
    "verl.trainer.ppo.v1.trainer_base.PPOTrainer._validate",
    "verl.trainer.ppo.v1.trainer_colocate_async.PPOTrainerColocateAsync.on_train_begin",
    "verl.trainer.ppo.v1.trainer_separate_async.PPOTrainerSeparateAsync.on_train_begin",
    "transfer_queue.close",
    "ray.init",
    "ray.get",
    "ray.shutdown",
    "ray.actor._modify_class",
    "ray.actor.ActorHandle._actor_method_call",
    "ray.actor.ActorClass._remote",
    "ray.actor._ActorClassMethodMetadata.create",
    "ray.remote_function.RemoteFunction._remote",
}


def run(order, **environment):
    quiet = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, order],
        env={**os.environ, **quiet, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("TOLD"))
    return json.loads(line[4:]), result.stderr


@pytest.mark.parametrize("order", ["import,instrument,uninstrument", "import,instrument,instrument,uninstrument"])
def test_after_the_import_everything_is_patched_once_and_restored_to_the_identical_object(order):
    told, stderr = run(order)
    assert told["ours"][0] == []
    assert set(told["ours"][1]) >= HOOKS
    assert told["ours"][-1] == []
    assert told["restored"] == []
    assert told["added"] == []
    assert "verl-otel: failed" not in stderr
    if "instrument,instrument" in order:
        assert told["ours"][1] == told["ours"][2]


def test_before_the_import_everything_is_patched_as_it_appears_and_restored():
    told, stderr = run("instrument,import,uninstrument")
    assert set(told["ours"][1]) >= HOOKS
    assert told["ours"][-1] == []
    assert "verl-otel: failed" not in stderr


def test_withdrawn_hooks_leave_a_later_import_alone():
    told, _ = run("instrument,uninstrument,import")
    assert told["ours"] == [[], [], []]


def test_instrumenting_again_after_undoing_works():
    told, _ = run("import,instrument,uninstrument,instrument")
    assert told["ours"][3] == told["ours"][1]


def test_disabled_instrumentations_are_left_out():
    told, _ = run("import,instrument", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="verl_timers, verl_workers")
    assert set(told["instrumented"]) == {one.name for one in INSTRUMENTORS} - {"verl_timers", "verl_workers"}
    assert not [name for name in told["ours"][1] if "_timer" in name or ".engine_workers." in name]


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"VERL_OTEL_ENABLED": "false"}])
def test_switched_off_nothing_is_patched(off):
    told, _ = run("instrument,import", **off)
    assert told["ours"] == [[], []]


def test_installed_but_not_enabled_verls_plugin_patches_nothing():
    told, stderr = run("import")
    assert told["ours"] == [[]]
    assert "verl-otel" not in stderr


def test_enabled_verls_plugin_patches_as_instrument_does():
    plugin, _ = run("import", VERL_OTEL_ENABLED="true")
    direct, _ = run("import,instrument")
    assert plugin["ours"][0] == direct["ours"][1]
