"""Agent loops: each session is a trajectory; the manager's call that hands prompts over says what is expected."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed, observed_auto_await
from verl_otel.instrumentors.reading import integer, number, text
from verl_otel.patching import patches
from verl_otel.telemetry import batches, content, rewards, trajectories
from verl_otel.telemetry.batches import Dispatch
from verl_otel.telemetry.trajectories import Result, Session, Trajectory

_NAME: Final = "verl_agent_loops"
_own: Final = patches(_NAME)


def start_session(
    worker: Any, sampling_params: Any, trajectory: dict[str, Any], *_: Any, agent_name: str = "", **kwargs: Any
) -> Trajectory:
    """A session of an agent loop begins."""
    content.handled()
    session = read_session(trajectory, agent_name, kwargs)
    if not content.captured():
        return Trajectory(session)
    decode = getattr(getattr(worker, "tokenizer", None), "decode", None)
    return Trajectory(session, read_messages(kwargs.get("raw_prompt", ())), decode)


def read_session(trajectory: Mapping[str, Any], agent_name: str, kwargs: Mapping[str, Any]) -> Session:
    """What identifies the session: V1 gives uid and session beside the trajectory, legacy the repeat in it."""
    uid = kwargs.get("uid")
    return Session(
        agent=agent_name,
        uid=text(uid),
        session=integer(kwargs.get("session_id", trajectory.get("rollout_n"))),
        step=_step(trajectory.get("step")),
        index=integer(trajectory.get("sample_index")),
        validation=bool(trajectory.get("validate", False)),
    )


def read_messages(prompt: Iterable[Any]) -> list[tuple[str, str]]:
    """(role, text) of the prompt's messages; of one with several media, its texts."""
    found = []
    for message in prompt:
        said = message.get("content") or ""
        if not isinstance(said, str):
            said = "\n".join(str(part["text"]) for part in said if part.get("type") == "text")
        found.append((str(message.get("role", "")), said))
    return found


class _Scoring:
    """The reward of a session's outputs is asked for; with it, the session's result is known."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self._outputs = outputs
        self._waiting = trajectories.Waiting(trajectories.REWARD)

    def stop(self) -> None:
        """It is there, unless the trainer computes it later."""
        self._waiting.over()
        if (trajectory := self._waiting.trajectory) is not None:
            with guard(f"{_NAME} read_result"):
                trajectory.result = read_result(self._outputs)

    def fail(self, error: BaseException) -> None:
        """It raised; what was generated is known all the same."""
        self.stop()


def start_scoring(worker: Any, outputs: Any = None, *_: Any, **__: Any) -> Observation:
    """Asked for the reward; verl 0.7.1 gives one output, later ones a list of them."""
    return _Scoring(outputs if isinstance(outputs, list) else [outputs])


def read_result(outputs: Sequence[Any]) -> Result:
    """What came of a session, from verl's AgentLoopOutput of each of its sequences."""
    first, last = outputs[0], outputs[-1]
    fields = last.extra_fields or {}
    return Result(
        outputs=len(outputs),
        turns=int(last.num_turns),
        prompt=len(first.prompt_ids),
        response=sum(len(one.response_ids) for one in outputs),
        generated=sum(sum(one.response_mask) for one in outputs),
        reward=number(last.reward_score),
        parts=rewards.numeric(fields.get("reward_extra_info") or {}),
        oldest=integer(fields.get("min_global_steps")),
        newest=integer(fields.get("max_global_steps")),
    )


def start_dispatch_tq(manager: Any, prompts: Any, *_: Any, **__: Any) -> Observation:
    """V1 hands prompts to its workers, which make the trajectories of each."""
    return batches.Dispatching(read_prompts(prompts, manager.config.actor_rollout_ref.rollout))


def read_prompts(prompts: Any, rollout: Any) -> Dispatch:
    """What a TensorDict of prompts asks for."""
    validation = bool(prompts["validate"]) if "validate" in prompts else False
    size = int(rollout.val_kwargs.n if validation else rollout.n)
    uids = [str(uid) for uid in prompts["uid"]]
    sizes = [int(one) for one in prompts["__rollout_n__"]] if "__rollout_n__" in prompts else [size] * len(uids)
    return Dispatch(_step(prompts["global_steps"]), dict(zip(uids, sizes, strict=True)), validation)


def start_dispatch(manager: Any, prompts: Any, *_: Any, **__: Any) -> Observation:
    """Elsewhere the prompts are repeated before, one for each trajectory."""
    return batches.Dispatching(read_repeated(prompts))


def read_repeated(prompts: Any) -> Dispatch:
    """What a DataProto of repeated prompts asks for; without uids they count as one group."""
    uids = prompts.non_tensor_batch.get("uid")
    sizes = Counter(str(uid) for uid in uids) if uids is not None else Counter({"": len(prompts)})
    step = _step(prompts.meta_info.get("global_steps"))
    return Dispatch(step, sizes, bool(prompts.meta_info.get("validate", False)))


def _step(value: Any) -> int | None:
    """A fully async rollouter doesn't say; its workers then take -1."""
    step = integer(value)
    return step if step is not None and step >= 0 else None


_LOOP: Final = "verl.experimental.agent_loop.agent_loop"


class AgentLoopsInstrumentor(VerlInstrumentor):
    """Trajectories, from the agent loop worker; what is asked for, from its managers."""

    name = _NAME
    targets = (
        Target(
            _LOOP,
            "AgentLoopWorker._run_agent_loop",
            observed(_own, start_session),
            reads=("sampling_params", "trajectory", "agent_name"),
        ),
        Target(_LOOP, "AgentLoopWorker._compute_score", observed(_own, start_scoring)),
        Target(
            _LOOP, "AgentLoopManager.generate_sequences", observed_auto_await(_own, start_dispatch), reads=("prompts",)
        ),
        Target(
            "verl.trainer.ppo.v1.agent_loop_tq",
            "AgentLoopManagerTQ.generate_sequences",
            observed(_own, start_dispatch_tq),
            reads=("prompts",),
            since="0.9.0",
        ),
        Target(
            "verl.experimental.fully_async_policy.fully_async_rollouter",
            "FullyAsyncAgentLoopManager.generate_sequences_single",
            observed(_own, start_dispatch),
            reads=("prompts",),
            since="0.8.0",
        ),
    )

    def _instrument(self, **kwargs: Any) -> None:
        super()._instrument(**kwargs)
        content.keep_private("AgentLoopWorker")
