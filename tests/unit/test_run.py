"""The run's events and description, and no secret in them."""

import json

import pytest

from verl_otel.telemetry import run
from verl_otel.telemetry.failure import Failure
from verl_otel.telemetry.run import RunInfo, render_config

SECRETS = {
    "wandb": {"api_key": "s3cret", "WANDB_API_KEY": "s3cret"},
    "env": [{"HF_TOKEN": "s3cret"}, {"password": "s3cret", "aws_secret_access_key": "s3cret"}],
    "url": "https://user:s3cret@host/path",
    "auth_token": "s3cret",
    "token": "s3cret",
    "GITHUB_TOKEN": "s3cret",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=s3cret",
    "signed": "https://bucket/file?signature=s3cret&expires=1",
    "ray_init": {"runtime_env": {"env_vars": {"ANYTHING": "s3cret", "MORE": ["s3cret"]}}},
}
HARMLESS = {
    "prompt_key": "prompt",
    "max_token_len": 512,
    "tokenizer": "t",
    "eos_token": "<end>",
    "use_kl_in_reward": False,
}


def test_secrets_are_cut_from_the_configuration():
    text = render_config({**SECRETS, **HARMLESS})
    assert "s3cret" not in text
    kept = json.loads(text)
    assert {key: kept[key] for key in HARMLESS} == HARMLESS
    assert kept["url"] == "https://***@host/path"


def test_start_and_end_carry_description_and_configuration(recorded):
    run.describe(RunInfo(project="p", algorithm="grpo", versions={"verl": "0.9.1"}), {"trainer": {"seed": 1}})
    run.start()
    run.start()
    run.end()
    run.end()
    (start, attributes), (end, last) = recorded.events()
    assert (start, end) == ("verl.run.start", "verl.run.end")
    assert attributes["verl.run.project"] == "p"
    assert attributes["verl.run.version.verl"] == "0.9.1"
    assert json.loads(attributes["verl.run.config"]) == {"trainer": {"seed": 1}}
    assert last["verl.run.outcome"] == "finished"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("bad"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(15), "interrupted")],
)
def test_the_last_failure_is_the_outcome(recorded, error, outcome):
    run.start()
    run.note_outcome(Failure.of(error))
    run.end()
    _, attributes = recorded.events()[-1]
    assert attributes["verl.run.outcome"] == outcome
    assert attributes["exception.type"] == type(error).__name__


def test_a_failure_that_was_got_over_is_none(recorded):
    run.start()
    run.note_outcome(Failure.of(ValueError()))
    run.note_outcome(None)
    run.end()
    assert recorded.events()[-1][1]["verl.run.outcome"] == "finished"


def test_without_a_start_there_is_no_end(recorded):
    run.end()
    assert recorded.events() == []


def test_run_info_is_a_gauge_of_one(recorded):
    assert "verl.run.info" not in recorded.metrics()
    run.describe(RunInfo(project="p", trainer="v1/sync"), None)
    (point,) = recorded.metrics()["verl.run.info"]
    assert point.value == 1
    assert dict(point.attributes) == {"verl.run.project": "p", "verl.run.trainer": "v1/sync"}
