"""Names of spans and events."""

from typing import Final

SPAN_STEP: Final = "verl.step"
SPAN_INIT: Final = "verl.init"
SPAN_VALIDATE: Final = "verl.validate"
SPAN_WARMUP: Final = "verl.warmup"
SPAN_PHASE: Final = "verl.phase."
"""Prefix; the timer's name follows: `verl.phase.update_actor`."""
SPAN_WORKER: Final = "verl.worker."
"""Prefix; the registered method's name follows: `verl.worker.compute_log_prob`."""
SPAN_AGENT: Final = "invoke_agent"
"""Followed by the agent loop's name, as OTel's gen_ai convention has it: `invoke_agent tool_agent`."""
SPAN_GENERATE_CLIENT: Final = "chat"
"""Model call of the agent loop; the gen_ai convention's operation name."""
SPAN_GENERATE_SERVER: Final = "verl.engine.generate"
SPAN_TOOL: Final = "execute_tool"
"""Followed by the tool's name, as OTel's gen_ai convention has it; alone where the model named none of the run's."""
SPAN_REWARD: Final = "verl.reward"
SPAN_REPLICA: Final = "verl.replica."
"""Prefix; what a replica does beside its requests: `verl.replica.busy`, `verl.replica.sleep`."""
SPAN_REPLICA_BUSY: Final = SPAN_REPLICA + "busy"
SPAN_QUEUE: Final = "verl.queue."
"""Prefix; an operation on TransferQueue: `verl.queue.kv_batch_put`."""

SPAN_NAMES: Final = frozenset(
    {
        SPAN_STEP,
        SPAN_INIT,
        SPAN_VALIDATE,
        SPAN_WARMUP,
        SPAN_GENERATE_CLIENT,
        SPAN_GENERATE_SERVER,
        SPAN_TOOL,
        SPAN_REWARD,
    }
)
SPAN_PREFIXES: Final = (SPAN_PHASE, SPAN_WORKER, SPAN_AGENT + " ", SPAN_TOOL + " ", SPAN_REPLICA, SPAN_QUEUE)

EVENT_RUN_START: Final = "verl.run.start"
EVENT_RUN_END: Final = "verl.run.end"
EVENT_RUN_RESUME: Final = "verl.run.resume"
EVENT_STUCK: Final = "verl.phase.stuck"
EVENT_PROFILE: Final = "verl.profiler.capture"
EVENT_OOM_KILL: Final = "verl.host.oom_kill"
EVENT_MISMATCH: Final = "verl.rollout.mismatch"
EVENT_MESSAGES: Final = "gen_ai.client.inference.operation.details"
"""OTel's gen_ai convention: what was said, where the user asked for it in events."""

EVENTS: Final = (
    EVENT_RUN_START,
    EVENT_RUN_RESUME,
    EVENT_RUN_END,
    EVENT_STUCK,
    EVENT_PROFILE,
    EVENT_OOM_KILL,
    EVENT_MISMATCH,
    EVENT_MESSAGES,
)

EVENT_NAME: Final = "event.name"
"""Attribute that has the name where the SDK's log records have none yet."""
