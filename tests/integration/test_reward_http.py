"""A reward over HTTP: verl's own request, through verl's own router, to a server that takes up its trace."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")
uvicorn = pytest.importorskip("uvicorn")

from fastapi import FastAPI, Request  # noqa: E402
from opentelemetry import trace  # noqa: E402
from starlette.responses import JSONResponse  # noqa: E402
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker  # noqa: E402
from verl.experimental.reward_loop.router.naive_router import NaiveRouter  # noqa: E402

import verl_otel  # noqa: E402
from verl_otel import semconv  # noqa: E402
from verl_otel.telemetry.http_context import CarriedContext  # noqa: E402
from verl_otel.telemetry.rewards import RewardCall, Sample  # noqa: E402


class Served:
    """An ASGI app on a port of its own, in a thread."""

    def __init__(self, app):
        self._server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self):
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
        return f"127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(10)


def model(seen, failures=0):
    """A reward model's server, which fails so many times first; it notes the trace that is current in it."""
    app = FastAPI()

    @app.post("/classify")
    async def classify(request: Request):
        seen.append((trace.get_current_span().get_span_context(), request.headers.get("traceparent")))
        if len(seen) <= failures:
            return JSONResponse({}, 500)
        return {"data": [{"probs": [0.25, 0.75]}]}

    app.add_middleware(CarriedContext)
    return app


@pytest.fixture
def instrumented(recorded):
    verl_otel.instrument()
    yield recorded
    verl_otel.uninstrument()


def worker_at(address, monkeypatch):
    """verl's worker, but for its tokenizers: made by its own `__init__`, which tells us its router."""
    monkeypatch.setattr(RewardLoopWorker, "_init_reward_fn", lambda self: None)
    return RewardLoopWorker(SimpleNamespace(), address)


def post(worker):
    async def run():
        call = RewardCall(Sample("a-reward-model"))
        try:
            return call, await worker._post_request({"input": "x"}, "classify")
        finally:
            call.stop()

    return asyncio.run(run())


def test_the_trace_goes_through_the_router_to_the_model(instrumented, monkeypatch):
    seen = []
    with Served(model(seen)) as server, Served(NaiveRouter([f"http://{server}"]).app) as router:
        call, answer = post(worker_at(router, monkeypatch))
    assert answer == {"data": [{"probs": [0.25, 0.75]}]}
    ((there, header),) = seen
    here = call.recording.span.get_span_context()
    assert (there.trace_id, there.span_id) == (here.trace_id, here.span_id)
    assert header.split("-")[1] == f"{here.trace_id:032x}"
    assert instrumented.spans["verl.reward"].attributes["verl.reward.requests"] == 1
    assert semconv.REWARD_REPEATS.name not in instrumented.metrics()


def test_a_request_that_had_to_be_repeated_is_counted(instrumented, monkeypatch):
    seen = []
    with Served(model(seen, failures=1)) as server:
        post(worker_at(server, monkeypatch))
    assert len(seen) == 2
    assert instrumented.spans["verl.reward"].attributes["verl.reward.requests"] == 2
    (point,) = instrumented.metrics()[semconv.REWARD_REPEATS.name]
    assert point.value == 1


def test_nobody_else_is_sent_our_headers(instrumented, monkeypatch):
    import aiohttp

    seen = []
    worker_at("127.0.0.1:1", monkeypatch)

    async def ask(address):
        RewardCall(Sample("a judge of someone else's"))
        async with aiohttp.ClientSession() as session, session.post(f"http://{address}/classify") as response:
            return await response.json()

    with Served(model(seen)) as server:
        asyncio.run(ask(server))
    assert seen[0][1] is None
