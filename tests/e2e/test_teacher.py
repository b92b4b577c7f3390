"""Distillation: a teacher's server judges each answer, and is told apart from the rollouts' own."""

import pytest
from observed import problems
from run import KIT

from e2e.conftest import observe
from e2e.rollouts import trajectories
from verl_otel import semconv

pytestmark = [pytest.mark.verl, pytest.mark.long]

_TEACHER = "distillation.teacher_models.teacher_model"
TEACHER = (
    "distillation.enabled=True",
    "distillation.nnodes=1",
    "distillation.n_gpus_per_node=1",
    f"{_TEACHER}.model_path={KIT}/model",
    f"{_TEACHER}.num_replicas=1",
    f"{_TEACHER}.inference.tensor_model_parallel_size=1",
    f"{_TEACHER}.inference.free_cache_engine=False",
    f"+{_TEACHER}.inference.enable_sleep_mode=False",
    f"{_TEACHER}.inference.gpu_memory_utilization=0.1",
    f"{_TEACHER}.inference.max_model_len=128",
    f"{_TEACHER}.inference.max_num_batched_tokens=512",
    f"{_TEACHER}.inference.max_num_seqs=32",
)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """One step with a teacher of its own server."""
    return observe(tmp_path_factory.mktemp("taught"), "auto", 1, (), TEACHER)


def test_it_is_complete(taught):
    assert taught.code == 0, taught.output[-3000:]
    assert problems(taught.capture, taught.log) == []


def test_the_teacher_is_in_the_trajectorys_trace_under_its_role(taught, record_property):
    asked = 0
    for one in trajectories(taught.capture, validation=False):
        servers = {span.attributes[semconv.ROLE]: span for span in one.of(semconv.SPAN_GENERATE_SERVER)}
        assert servers.keys() == {"rollout", "teacher"}
        assert servers["teacher"].attributes[semconv.LANE] == "teacher/0"
        assert servers["rollout"].attributes[semconv.LANE] == "replica/0"
        (call,) = (span for span in one.of("chat") if span.attributes[semconv.ROLE] == "teacher")
        assert servers["teacher"].parent == call.id
        assert one[semconv.ROLLOUT_MODEL_CALLS] == 1, "a teacher's call is no turn"
        asked += 1
    record_property("judged by the teacher", asked)
    assert asked == 16
