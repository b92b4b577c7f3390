"""Hydra on a real program: configuration before Ray starts, the outcome it hides, and attempts of a resumed run."""

import json
import os
import subprocess
import sys

import pytest

from verl_otel.telemetry import attempts
from verl_otel.telemetry.attempts import Attempt

pytestmark = pytest.mark.verl
pytest.importorskip("verl")

PROGRAM = """
import hydra, os
import verl_otel
verl_otel.instrument()
import verl
from verl_otel.telemetry import run

@hydra.main(config_path=None, version_base=None)
def main(config):
    run.start()
    print("ATTEMPT", os.environ.get("VERL_OTEL_RUN_ID"), os.environ.get("VERL_OTEL_ATTEMPT"))
    {body}

main()
"""


def run_program(body, tmp_path, *overrides, **environment):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(body=body))
    exporters = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "console"}
    result = subprocess.run(
        [sys.executable, str(path), "hydra.run.dir=.", "hydra.output_subdir=null", *overrides],
        env={**os.environ, **exporters, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = {}
    for line in result.stdout.splitlines():
        if "verl.run." in line and line.startswith("{"):
            record = json.loads(line)
            found[record.get("event_name") or record["attributes"]["event.name"]] = record
    attempt = next((line.split()[1:] for line in result.stdout.splitlines() if line.startswith("ATTEMPT")), None)
    return result, found, attempt


CONFIG = ("+trainer.project_name=p", "+trainer.experiment_name=e", "+algorithm.adv_estimator=grpo")


def test_the_start_carries_the_configuration_and_a_good_end_is_finished(tmp_path):
    result, found, attempt = run_program("pass", tmp_path, *CONFIG)
    assert result.returncode == 0, result.stderr
    assert found["verl.run.start"]["attributes"]["verl.run.algorithm"] == "grpo"
    assert json.loads(found["verl.run.start"]["attributes"]["verl.run.config"])["trainer"]["project_name"] == "p"
    assert "hydra" not in json.loads(found["verl.run.start"]["attributes"]["verl.run.config"])
    assert found["verl.run.end"]["attributes"]["verl.run.outcome"] == "finished"
    assert attempt[1] == "None"


def test_an_error_that_hydra_turns_into_an_exit_code_is_the_outcome(tmp_path):
    result, found, _ = run_program("raise ValueError('bad config')", tmp_path, *CONFIG)
    assert result.returncode == 1
    assert "ValueError: bad config" in result.stderr
    assert "verl_otel" not in result.stderr  # no frame of ours in what Hydra shows
    end = found["verl.run.end"]["attributes"]
    assert (end["verl.run.outcome"], end["exception.type"], end["exception.message"]) == (
        "failed",
        "ValueError",
        "bad config",
    )


RESUMES = ("+trainer.resume_mode=auto", "+trainer.default_local_dir=checkpoints")


@pytest.fixture
def checkpointed(tmp_path):
    """A folder where an attempt of run r1 left a checkpoint."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "latest_checkpointed_iteration.txt").write_text("10")
    attempts.write(folder, Attempt("r1", 1))
    return tmp_path


def test_a_resumed_run_is_the_same_with_one_attempt_more(checkpointed):
    _, found, attempt = run_program("pass", checkpointed, *CONFIG, *RESUMES)
    assert attempt == ["r1", "2"]
    resource = found["verl.run.start"]["resource"]["attributes"]
    assert (resource["verl.run.id"], resource["verl.run.attempt"]) == ("r1", 2)
    _, _, attempt = run_program("pass", checkpointed, *CONFIG, *RESUMES)
    assert attempt == ["r1", "3"]  # also if the second never got as far as a checkpoint


AUTO = {"resume_mode": "auto", "default_local_dir": "checkpoints"}
PATH = {**AUTO, "resume_mode": "resume_path"}


@pytest.mark.parametrize(
    ("trainer", "given", "expected"),
    [
        ({**AUTO, "resume_mode": "disable"}, None, None),
        ({**AUTO, "default_local_dir": "elsewhere"}, None, None),
        (AUTO, "mine", ("mine", None)),
        (AUTO, "r1", ("r1", "2")),
        (AUTO, None, ("r1", "2")),
        ({**PATH, "resume_from_path": "checkpoints/global_step_10"}, None, ("r1", "2")),
        ({**PATH, "resume_from_path": "/other/global_step_10"}, None, None),
    ],
)
def test_who_resumes_and_who_does_not(checkpointed, monkeypatch, trainer, given, expected):
    from verl_otel.instrumentors import hydra, run_config
    from verl_otel.ray import reach

    monkeypatch.chdir(checkpointed)
    monkeypatch.setenv("VERL_OTEL_ATTEMPT", "")
    monkeypatch.delenv("VERL_OTEL_ATTEMPT")
    monkeypatch.setenv("VERL_OTEL_RUN_ID", given or "")
    made = reach.run_id()
    hydra.resume(run_config.read_resume_folder({"trainer": trainer}))
    found = (os.environ["VERL_OTEL_RUN_ID"], os.environ.get("VERL_OTEL_ATTEMPT"))
    assert found == (expected or (made, None))
