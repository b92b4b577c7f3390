"""Names of attributes, each with its type and what it says."""

from dataclasses import dataclass
from typing import Final

from opentelemetry.semconv.attributes import error_attributes, server_attributes


@dataclass(frozen=True)
class Attribute:
    """Type of an attribute's value, and what it says."""

    kind: type
    description: str


ATTRIBUTES: Final[dict[str, Attribute]] = {}
"""Each attribute of ours; a name that ends in a dot is a prefix."""


def _attribute(name: str, kind: type, description: str) -> str:
    ATTRIBUTES[name] = Attribute(kind, description)
    return name


RUN_ID: Final = _attribute("verl.run.id", str, "Identity of the run, the same in all its processes.")
RUN_PROJECT: Final = _attribute("verl.run.project", str, "Project the run belongs to.")
RUN_EXPERIMENT: Final = _attribute("verl.run.experiment", str, "The experiment's name.")
RUN_ALGORITHM: Final = _attribute("verl.run.algorithm", str, "Algorithm, by its advantage estimator.")
RUN_MODEL: Final = _attribute("verl.run.model", str, "Path of the model that is trained.")
RUN_TRAINER: Final = _attribute(
    "verl.run.trainer", str, "Kind of the trainer: v1/<mode>, legacy, one_step_off, fully_async or sft."
)
RUN_ENGINE: Final = _attribute("verl.run.engine", str, "Engine of the rollouts.")
RUN_OUTCOME: Final = _attribute("verl.run.outcome", str, "finished, failed or interrupted.")
RUN_ENDED_IN: Final = _attribute(
    "verl.run.ended_in", str, "Type of the exception that the program ended in; the event's own is the earliest."
)
RUN_ATTEMPT: Final = _attribute("verl.run.attempt", int, "1, and one more each time that the run is resumed.")
RUN_RESUMED_STEP: Final = _attribute("verl.run.resumed_step", int, "Step of the checkpoint that it was resumed from.")
RUN_CONFIG: Final = _attribute("verl.run.config", str, "The resolved configuration as JSON, secrets cut.")
RUN_VERSION: Final = _attribute("verl.run.version.", str, "Version of the distribution that the name ends in.")

RAY_JOB_ID: Final = _attribute("ray.job.id", str, "Ray's id of the job.")
RAY_NODE_ID: Final = _attribute("ray.node.id", str, "Ray's id of the node.")

STEP: Final = _attribute("verl.step", int, "Training step; 0 before the first.")
LOCAL_STEP: Final = _attribute(
    "verl.local_step", int, "Which of the local updates that make one step, from 1; fully async trainers alone."
)
PHASE: Final = _attribute("verl.phase", str, "verl's timer name; on worker spans the phase that asked for the call.")
ROLE: Final = _attribute("verl.role", str, "Role of a worker.")
RANK: Final = _attribute("verl.rank", int, "Rank of a worker; unique only together with its role.")
LANE: Final = _attribute(
    "verl.lane",
    str,
    "Row of a state timeline: trainer, trainer/<rank> under torchrun, <role>/<rank>, replica/<number>; reward/<number> "
    "and the like for servers that are not the rollouts'.",
)
TRUNCATED: Final = _attribute("verl.truncated", bool, "The span was open at an orderly end, and was ended for it.")
VALIDATION: Final = _attribute("verl.validation", bool, "Whether it is validation.")
WORKER_METHOD: Final = _attribute("verl.worker.method", str, "The registered method.")

STUCK_SECONDS: Final = _attribute("verl.stuck.duration", float, "Seconds that it has been open.")
STUCK_LONGEST: Final = _attribute(
    "verl.stuck.longest", float, "Seconds that the like took at most before, in this process; absent if none did."
)
STUCK_STACKS: Final = _attribute("verl.stuck.stacks", str, "Where every thread of the process is.")

EPOCH: Final = _attribute("verl.epoch", int, "Epoch of the training data, from 0.")
SAMPLE_UID: Final = _attribute("verl.sample.uid", str, "verl's uid of the prompt; its trajectories are a group.")
SAMPLE_INDEX: Final = _attribute("verl.sample.index", int, "Index of the prompt in its data set.")
ROLLOUT_SESSION: Final = _attribute("verl.rollout.session", int, "Number of the trajectory among those of its prompt.")
ROLLOUT_OUTCOME: Final = _attribute("verl.rollout.outcome", str, "finished, failed or cancelled.")
ROLLOUT_OUTPUTS: Final = _attribute("verl.rollout.outputs", int, "Sequences that the session gave; mostly one.")
ROLLOUT_TURNS: Final = _attribute("verl.rollout.turns", int, "Messages of the conversation, as verl counts them.")
ROLLOUT_PROMPT_TOKENS: Final = _attribute("verl.rollout.prompt_tokens", int, "Tokens of the prompt.")
ROLLOUT_RESPONSE_TOKENS: Final = _attribute(
    "verl.rollout.response_tokens", int, "Tokens after the prompt, those of tools included; verl's response length."
)
ROLLOUT_GENERATED_TOKENS: Final = _attribute(
    "verl.rollout.generated_tokens", int, "Of these, the ones that the model made: the sum of the response mask."
)
TOKEN_KIND: Final = _attribute("verl.token.kind", str, "prompt, response, or generated: see verl.rollout.*_tokens.")
ROLLOUT_STOP_REASON: Final = _attribute(
    "verl.rollout.stop_reason", str, "Why its last model call ended, in verl's word."
)
ROLLOUT_MODEL_CALLS: Final = _attribute("verl.rollout.model_calls", int, "Model calls it made.")
ROLLOUT_TOOL_CALLS: Final = _attribute("verl.rollout.tool_calls", int, "Tool calls it made.")
ROLLOUT_RESUMED: Final = _attribute(
    "verl.rollout.resumed", int, "Times that an aborted model call of it went on where it was (partial rollout)."
)
ROLLOUT_WAITING_FOR: Final = _attribute(
    "verl.rollout.waiting_for", str, "balancer, model, tool, reward, or agent: the loop's own code."
)
ROLLOUT_STATE: Final = _attribute("verl.rollout.state", str, "pending, running, finished or failed.")
ROLLOUT_CONSUMED: Final = _attribute(
    "verl.rollout.consumed", tuple, "Trajectories that a batch was made of, as uid_session_output; the first 64."
)
ROLLOUT_CONSUMED_COUNT: Final = _attribute("verl.rollout.consumed.count", int, "How many they were in all.")
ROLLOUT_KEPT_FOR: Final = _attribute(
    "verl.rollout.kept_for", str, "Why the root of a trajectory that was not sampled is there all the same: failed."
)
WEIGHTS_OLDEST: Final = _attribute("verl.weights.oldest", int, "Version of the weights that a trajectory began with.")
WEIGHTS_NEWEST: Final = _attribute("verl.weights.newest", int, "Version of the weights that it ended with.")
WEIGHTS_VERSION: Final = _attribute("verl.weights.version", int, "Version of the weights: the step they come from.")
ROLLOUT_CALLS_UNSHOWN: Final = _attribute(
    "verl.rollout.unshown_calls", int, "Model and tool calls of the trajectory beyond those that have spans."
)
MISMATCH_MEAN: Final = _attribute(
    "verl.rollout.mismatch.mean",
    float,
    "Mean over a trajectory's tokens of |p(engine) - p(trainer)|.",
)
MISMATCH_TOKENS: Final = _attribute(
    "verl.rollout.mismatch.tokens",
    float,
    "For each token of a response: log p(trainer) - log p(engine); 0 for what the model didn't write.",
)
OOM_KILLER: Final = _attribute("verl.host.oom_killer", str, "Who killed a process for memory: ray or kernel.")
THROUGHPUT: Final = _attribute("verl.throughput", str, "effective, trainer or rollout.")
SOURCE: Final = _attribute("verl.telemetry.source", str, "Whose metrics were to be read.")
MISS_REASON: Final = _attribute(
    "verl.telemetry.miss.reason", str, "hangs, too_many, or the type of the exception that it raised."
)
WEIGHTS_AGE: Final = _attribute(
    "verl.weights.age", int, "Versions between the weights that made a trajectory and those that a step begins with."
)
WEIGHTS_SIZE: Final = _attribute("verl.weights.size", int, "Bytes of weights that were handed on.")
GROUP_SIGNAL: Final = _attribute(
    "verl.group.signal", str, "mixed: rewards differ; all_right, all_wrong: all equal, above 0 or not."
)

REWARD: Final = _attribute(
    "verl.reward", float, "Reward of the trajectory; absent where the trainer computes it later."
)
REWARD_PART: Final = _attribute("verl.reward.part.", float, "Numeric field of verl's reward_extra_info, by its name.")
REWARD_FUNCTION: Final = _attribute("verl.reward.function", str, "Function, reward model or manager that rewards.")
REWARD_NAME: Final = _attribute("verl.reward.name", str, "Part of the reward: score, or a field of reward_extra_info.")
REWARD_REQUESTS: Final = _attribute("verl.reward.requests", int, "HTTP requests made for it, repeated ones included.")

TOOL_OUTCOME: Final = _attribute(
    "verl.tool.outcome",
    str,
    "succeeded, failed (it raised, and verl made it a text), unknown_tool, invalid_arguments or cancelled.",
)
TOOL_REWARD: Final = _attribute("verl.tool.reward", float, "Reward that the tool gave.")

REPLICA: Final = _attribute("verl.replica", int, "Rank of the rollout replica; unique only together with its role.")
BALANCER_WAIT: Final = _attribute("verl.balancer.duration", float, "Seconds until the load balancer named a replica.")
BALANCER_STICKY: Final = _attribute(
    "verl.balancer.sticky", bool, "Whether it is the replica of the trajectory's call before; absent for the first."
)
ENGINE_INPUT_TOKENS: Final = _attribute("verl.engine.input_tokens", int, "Tokens of the prompt, as the engine got it.")
ENGINE_OUTPUT_TOKENS: Final = _attribute("verl.engine.output_tokens", int, "Tokens the engine gave.")
ENGINE_CACHED_TOKENS: Final = _attribute("verl.engine.cached_tokens", int, "Tokens of the prompt found in its cache.")
ENGINE_FINISH_REASON: Final = _attribute("verl.engine.finish_reason", str, "verl's stop reason.")
ENGINE_PREEMPTIONS: Final = _attribute("verl.engine.preemptions", int, "Times that the engine preempted the request.")
ENGINE_PARKED: Final = _attribute(
    "verl.engine.parked.duration", float, "Seconds at verl's gate, closed for new weights."
)
ENGINE_QUEUED: Final = _attribute("verl.engine.queue.duration", float, "Seconds in the engine's own queue.")
ENGINE_FIRST_TOKEN: Final = _attribute(
    "verl.engine.time_to_first_token", float, "Seconds from the engine's taking the request to its first token."
)
ENGINE_PER_TOKEN: Final = _attribute(
    "verl.engine.time_per_output_token", float, "Seconds for each token after the first, on average."
)
ENGINE_DATA_PARALLEL_RANK: Final = _attribute(
    "verl.engine.data_parallel_rank", int, "Rank of the engine core in a data-parallel replica."
)
ENGINE_STATE: Final = _attribute("verl.engine.state", str, "parked (at verl's gate) or running.")
ENGINE_REQUESTS: Final = _attribute("verl.engine.requests", int, "Requests that a busy interval saw.")
QUEUE_OPERATION: Final = _attribute("verl.queue.operation", str, "Operation of TransferQueue.")
QUEUE_PARTITION: Final = _attribute("verl.queue.partition", str, "Its partition: train or val.")
QUEUE_KEYS: Final = _attribute("verl.queue.keys", int, "How many keys it was for.")

# OTel's gen_ai convention (v1.41 names). Spelled here, since the constants' package deprecates and moves them.
GEN_AI_OPERATION_NAME: Final = _attribute("gen_ai.operation.name", str, "chat, invoke_agent or execute_tool.")
GEN_AI_AGENT_NAME: Final = _attribute("gen_ai.agent.name", str, "Name of the agent loop.")
GEN_AI_PROVIDER_NAME: Final = _attribute("gen_ai.provider.name", str, "The engine.")
GEN_AI_INPUT_TOKENS: Final = _attribute("gen_ai.usage.input_tokens", int, "Tokens of the prompt.")
GEN_AI_OUTPUT_TOKENS: Final = _attribute("gen_ai.usage.output_tokens", int, "Tokens of the answer.")
GEN_AI_CACHED_TOKENS: Final = _attribute(
    "gen_ai.usage.cache_read.input_tokens", int, "Tokens of the prompt that the engine had in its cache."
)
GEN_AI_FINISH_REASONS: Final = _attribute("gen_ai.response.finish_reasons", tuple, "verl's stop reason.")
GEN_AI_TOKEN_TYPE: Final = _attribute("gen_ai.token.type", str, "input or output.")
GEN_AI_TOOL_NAME: Final = _attribute(
    "gen_ai.tool.name", str, "Name of the tool; absent for one that the run doesn't have."
)
GEN_AI_TOOL_TYPE: Final = _attribute("gen_ai.tool.type", str, "Always function.")
GEN_AI_TOOL_CALL_ID: Final = _attribute("gen_ai.tool.call.id", str, "The model's id of the tool call.")
GEN_AI_TOOL_ARGUMENTS: Final = _attribute("gen_ai.tool.call.arguments", str, "Arguments of the tool call; content.")
GEN_AI_TOOL_RESULT: Final = _attribute("gen_ai.tool.call.result", str, "What the tool answered; content.")
GEN_AI_INPUT_MESSAGES: Final = _attribute("gen_ai.input.messages", str, "The prompt's messages as JSON; content.")
GEN_AI_OUTPUT_MESSAGES: Final = _attribute("gen_ai.output.messages", str, "The answer as JSON; content.")
GEN_AI_SCORE: Final = _attribute("gen_ai.evaluation.score.value", float, "What a reward call gave.")
GEN_AI_SCORE_NAME: Final = _attribute("gen_ai.evaluation.name", str, "Function, reward model or manager that rewards.")

# Of other stable conventions of OTel's.
SERVER_ADDRESS: Final = _attribute(server_attributes.SERVER_ADDRESS, str, "Host of the replica that was asked.")
SERVER_PORT: Final = _attribute(server_attributes.SERVER_PORT, int, "Its port.")
ERROR_TYPE: Final = _attribute(error_attributes.ERROR_TYPE, str, "Type of the exception that it ended in.")

# OTel's code convention, stable since 1.33; the oldest constants' package lacks these names.
CODE_FILE: Final = _attribute("code.file.path", str, "File that logged a message.")
CODE_LINE: Final = _attribute("code.line.number", int, "Line that logged it.")
CODE_FUNCTION: Final = _attribute("code.function.name", str, "Function that logged it.")
LOGGER: Final = _attribute("verl.logger", str, "Name of the Python logger that a message was given to.")

METRIC_KEY: Final = _attribute("verl.metric.key", str, "The key given to Tracking.log, as it was.")
STATISTIC: Final = _attribute("verl.statistic", str, "The statistic that verl's key ends in.")
DATA_SOURCE: Final = _attribute("verl.data_source", str, "Data source of a validation score.")
VARIABLE: Final = _attribute("verl.variable", str, "Variable of a validation score.")

PROFILER_TOOL: Final = _attribute("verl.profiler.tool", str, "Tool that profiles.")
PROFILER_STEPS: Final = _attribute("verl.profiler.steps", tuple, "Steps that are profiled.")
PROFILER_RANKS: Final = _attribute("verl.profiler.ranks", tuple, "Ranks that are profiled; empty means all.")
PROFILER_PATH: Final = _attribute("verl.profiler.path", str, "Where the profiler writes.")
PROFILER_DURATION: Final = _attribute("verl.profiler.duration", float, "Seconds that were profiled.")

SIGNAL: Final = _attribute("verl.telemetry.signal", str, "traces, metrics or logs.")
DROP_REASON: Final = _attribute(
    "verl.telemetry.reason",
    str,
    "queue_full: the bound was reached; refused: by the backend; partial_success: rejected by it; exit: not sent "
    "before the end; encoding: not encodable; overload: handed over too fast; none: a zero.",
)
DOCTOR_MARK: Final = _attribute("verl.doctor.mark", str, "Tells one check of the doctor's from the next.")
PLACE: Final = _attribute("verl.telemetry.place", str, "What failed.")
VALUE_TYPE: Final = _attribute("verl.telemetry.type", str, "Type of a value that is no number.")
