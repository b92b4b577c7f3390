"""An engine's asynchronous generators, watched: they end as before, whoever closes them, and so do their spans."""

import asyncio
import gc
import inspect
import logging

import pytest
from opentelemetry import trace

from verl_otel import semconv
from verl_otel.instrumentors.engines import observed_answers
from verl_otel.patching import patches
from verl_otel.telemetry.engines import EngineRequest


class Answering:
    """An engine's request that came over HTTP."""

    def __init__(self, *_, **__):
        self.request = EngineRequest.aside()

    each = None

    def began(self, part):
        assert part == 0
        self.request.produced()

    def stop(self, last):
        assert last == 4
        self.request.stop()

    def fail(self, error, last):
        self.request.fail(error)


@pytest.fixture
def watched(recorded):
    own = patches("answers")
    own.start()
    yield recorded, observed_answers(own, Answering)
    own.undo()


async def parts(count, error=None):
    for number in range(count):
        await asyncio.sleep(0)
        yield number
    if error is not None:
        raise error


def test_it_gives_what_it_gave_and_stays_a_generator(watched):
    recorded, wrap = watched
    wrapped = wrap(parts)
    assert inspect.isasyncgenfunction(wrapped)

    async def run():
        return [one async for one in wrapped(5)]

    assert asyncio.run(run()) == [0, 1, 2, 3, 4]
    assert recorded.names == ["verl.replica.busy", semconv.SPAN_GENERATE_SERVER]


def test_an_error_passes_as_it_is(watched):
    recorded, wrap = watched
    error = ValueError("theirs")

    async def run():
        async for _ in wrap(parts)(1, error):
            pass

    with pytest.raises(ValueError, match="theirs") as caught:
        asyncio.run(run())
    assert caught.value is error
    assert recorded.spans[semconv.SPAN_GENERATE_SERVER].events[0].attributes["exception.type"] == "ValueError"


def test_a_thousand_closed_from_another_task(watched, caplog):
    recorded, wrap = watched
    caplog.set_level(logging.WARNING)
    problems = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        mine = trace.NonRecordingSpan(trace.SpanContext(1, 2, False, trace.TraceFlags(1)))
        with trace.use_span(mine):
            made = [wrap(parts)(10) for _ in range(1000)]
            for one in made:
                await anext(one)
                assert trace.get_current_span() is mine
            for one in made:
                await asyncio.create_task(one.aclose())
                assert trace.get_current_span() is mine

    asyncio.run(run())
    assert [caplog.records, problems] == [[], []]
    spans = [one for one in recorded.exporter.get_finished_spans() if one.name == semconv.SPAN_GENERATE_SERVER]
    assert len(spans) == 1000


def test_one_that_is_dropped_ends_when_it_is_collected(watched, caplog):
    recorded, wrap = watched

    async def run():
        await anext(wrap(parts)(10))  # as verl takes SGLang's answer
        gc.collect()
        await asyncio.sleep(0.05)

    asyncio.run(run())
    assert semconv.SPAN_GENERATE_SERVER in recorded.names
    assert caplog.records == []
