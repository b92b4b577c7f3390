"""Variables: a bad or unknown one costs one clear line and nothing else."""

import logging

import pytest

from verl_otel.settings import OURS, Settings


def test_defaults_without_any_variable():
    settings = Settings.read({})
    assert (settings.enabled, settings.queue_mib, settings.flush_timeout, settings.role) == (None, 48, 2.0, "driver")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("Off", False), (" no ", False)])
def test_flags(text, value):
    assert Settings.read({"VERL_OTEL_ENABLED": text}).enabled is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VERL_OTEL_QUEUE_MIB", "many"),
        ("VERL_OTEL_QUEUE_MIB", "0"),
        ("VERL_OTEL_FLUSH_TIMEOUT", "-1"),
        ("VERL_OTEL_FLUSH_TIMEOUT", "nan"),
        ("VERL_OTEL_ENABLED", "maybe"),
        ("VERL_OTEL_RUN_ID", ""),
        ("VERL_OTEL_MAX_KEYS", "1.5"),
    ],
)
def test_a_bad_value_is_named_once_and_its_default_taken(name, text, caplog):
    with caplog.at_level(logging.WARNING, "verl_otel"):
        assert Settings.read({name: text}) == Settings()
        Settings.read({name: text})
    (message,) = caplog.messages
    assert name in message


def test_an_unknown_variable_is_named_with_the_nearest(caplog):
    with caplog.at_level(logging.WARNING, "verl_otel"):
        Settings.read({"VERL_OTEL_FOO": "", "VERL_OTEL_QUEUE_MB": "3"})
    assert "VERL_OTEL_FOO is not a variable" in caplog.text
    assert "did you mean VERL_OTEL_QUEUE_MIB?" in caplog.text


def test_a_worker_leaves_the_complaint_to_the_driver(caplog, monkeypatch):
    monkeypatch.setenv("VERL_OTEL_ROLE", "worker")
    with caplog.at_level(logging.WARNING, "verl_otel"):
        Settings.read({"VERL_OTEL_FOO": ""})
    assert not caplog.messages


def test_every_setting_but_the_internal_ones_travels_to_workers():
    from verl_otel.ray.reach import worker_environment

    ours = dict.fromkeys(OURS, "true")
    travelled = worker_environment({**ours, "OTEL_TOKEN": "x", "MY_VARIABLE": "y"})
    assert travelled.keys() == OURS


def test_a_page_with_a_password_in_its_url_is_refused(caplog):
    found = Settings.read({"VERL_OTEL_SCRAPE": "http://me:secret@127.0.0.1:9/metrics"})
    assert found.scrape == ()
    assert Settings.read({"VERL_OTEL_SCRAPE": " ray , http://a/b"}).scrape == ("ray", "http://a/b")
