"""Log messages and uncaught exceptions, where they are asked for."""

import logging
import logging.config
import sys
import threading

import pytest

from verl_otel import runtime
from verl_otel.instrumentors.logs import LogsInstrumentor
from verl_otel.settings import Settings
from verl_otel.telemetry import workers
from verl_otel.telemetry.workers import WorkerCall


@pytest.fixture
def exported(monkeypatch, recorded):
    """Logging is instrumented, as it is once verl is imported."""
    instrumentor = LogsInstrumentor()
    instrumentor.patches.start()
    instrumentor._patch()
    yield recorded
    instrumentor.patches.undo()


def test_a_warning_has_text_severity_trace_role_and_rank(exported):
    call = workers.start(WorkerCall("actor", 2, "update_actor"))
    logging.getLogger("verl.workers").warning("gradient is %s", float("nan"))
    logging.getLogger("verl.workers").info("too small to tell")
    context = call.span.get_span_context()
    call.stop()
    (one,) = exported.messages()
    assert one.body == "gradient is nan"
    assert one.severity_text == "WARN"
    assert (one.attributes["verl.role"], one.attributes["verl.rank"]) == ("actor", 2)
    assert one.attributes["verl.logger"] == "verl.workers"
    assert one.attributes["code.file.path"] == __file__
    assert (one.trace_id, one.span_id) == (context.trace_id, context.span_id)


def test_it_outlives_a_new_configuration_and_loggers_that_pass_nothing_on(exported):
    quiet = {"version": 1, "disable_existing_loggers": False}
    logging.config.dictConfig({**quiet, "loggers": {"vllm": {"propagate": False, "level": "INFO"}}})
    logging.getLogger("vllm").error("engine died")
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    logging.getLogger("vllm").error("switched off")
    assert [one.body for one in exported.messages()] == ["engine died"]


def test_our_own_words_and_broken_messages_are_left_out(exported):
    class Hostile:
        def __str__(self):
            logging.getLogger("inner").warning("from within")
            raise ValueError

    logging.getLogger("verl_otel").warning("ours")
    logging.getLogger("opentelemetry.sdk").warning("theirs")
    handler = logging.NullHandler()
    logger = logging.getLogger("user")
    logger.addHandler(handler)
    logger.propagate = False
    logger.warning("%s", Hostile())
    assert [one.body for one in exported.messages()] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_uncaught_exceptions_of_threads_and_program(exported):
    error = ValueError("in a thread")
    threading.excepthook(threading.ExceptHookArgs((ValueError, error, None, None)))
    sys.excepthook(KeyError, KeyError("in the program"), None)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    found = exported.messages()
    assert [one.body for one in found] == ["Uncaught ValueError", "Uncaught KeyError"]
    assert found[0].attributes["exception.message"] == "in a thread"
    assert "ValueError: in a thread" in found[0].attributes["exception.stacktrace"]


def test_a_flood_of_messages_costs_no_event(exported):
    from verl_otel.telemetry import run

    run.start()
    for number in range(5000):
        logging.getLogger("flood").error("%d", number)
    processor = __import__("verl_otel.runtime").runtime.current().pipeline.log_processor
    assert [name for name, _ in exported.events()] == ["verl.run.start"]
    assert processor._messages.overflow == 5000 - len(exported.messages())


def test_off_unless_asked_for(monkeypatch):
    before = logging.Logger.callHandlers
    LogsInstrumentor()._patch_more(by_program=True)
    assert logging.Logger.callHandlers is before


def test_a_message_that_is_logged_while_the_runtime_starts_waits_for_nothing(exported, monkeypatch):
    runtime.stop(flush=False)
    read = Settings.read

    def reading(*given):
        logging.getLogger("theirs").warning("a handler of the user's, meanwhile")
        return read(*given)

    monkeypatch.setattr(Settings, "read", reading)
    starting = threading.Thread(target=runtime.current, daemon=True)
    starting.start()
    starting.join(20)
    assert not starting.is_alive()
    assert runtime.started() is not None
