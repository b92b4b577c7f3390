"""verl's own rollout trace by MLflow, which stands on OpenTelemetry as well, switched on beside ours."""

import subprocess
import sys

import pytest
from observed import problems

from e2e.conftest import observe
from e2e.rollouts import trajectories

pytestmark = [pytest.mark.verl, pytest.mark.long]

MLFLOW = (
    "mlflow-skinny==3.17.2",
    "databricks-sdk",
    "gitpython",
    "gitdb",
    "smmap",
    "google-auth",
    "sqlparse",
    "python-dotenv",
    "cachetools",
)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Two steps. MLflow's store is empty after them, with us and without, so only what is ours can be judged."""
    folder = tmp_path_factory.mktemp("mlflow")
    # Beside the environment, whose OpenTelemetry and protobuf are pinned.
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "packages", *MLFLOW]
    subprocess.run(command, check=True)
    variables = {
        "PYTHONPATH": str(folder / "packages"),
        "MLFLOW_TRACKING_URI": (folder / "store").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        # Or it sends its own spans, texts included, to OTEL_EXPORTER_OTLP_ENDPOINT.
        "MLFLOW_ENABLE_OTLP_EXPORTER": "false",
    }
    return observe(folder / "run", "auto", 2, variables, ("actor_rollout_ref.rollout.trace.backend=mlflow",))


def test_our_run_is_complete(traced):
    assert traced.code == 0, traced.output[-3000:]
    assert problems(traced.capture, traced.log) == []
    assert len(trajectories(traced.capture, validation=False)) == 2 * 16


def test_no_span_of_mlflows_is_in_our_stream(traced):
    assert {one.name for one in traced.capture.spans if "AgentLoop" in one.name or "LLMServer" in one.name} == set()
