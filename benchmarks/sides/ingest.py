"""The generator of the embedded backend's benchmark: processes of a big run, at so many spans and points a second."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from benchmarks.children import serve
from benchmarks.fleet import Kind, Speaker, Template, speakers
from benchmarks.sides.replay import _FLEET, _Replay
from verl_otel import semconv
from verl_otel.local.otlp.requests import REQUESTS


def prepare(capture: str, processes: int, spans: float, points: float) -> dict[str, float]:
    """Encode as many replicas, agent and reward workers; returns the requests a second of each signal."""
    models = (semconv.SPAN_GENERATE_SERVER, "invoke_agent", semconv.SPAN_REWARD)
    wanted = [Kind(model, processes, model, spans / processes / len(models)) for model in models]
    _FLEET[:] = [_counted(one) for one in speakers(Path(capture), wanted)]
    _adjust("traces", spans)
    _adjust("metrics", points)
    return {signal: sum(1 / every for every, _ in _of(signal)) for signal in ("traces", "metrics")}


def replay(url: str, seconds: float) -> dict[str, float]:
    """Send for so long what `prepare` made; what `replay` of the gateway's gives, and `sent_*`: the counts."""
    sending = _Replay(url, 1.0, seconds)
    rates = asyncio.run(sending.run())
    return {**rates, **{f"sent_{name}": count for name, count in sending._counts.items()}}  # noqa: SLF001 - exact


def _counted(speaker: Speaker) -> Speaker:
    """With the items of all the resources of a request: a process may have put several batches into one."""
    for _, template in speaker.requests:
        signal = template.path.removeprefix("/v1/")
        template.items = items(signal, bytes(template.body))
    return speaker


def items(signal: str, body: bytes) -> int:
    """Spans or points of a request."""
    request = REQUESTS[signal].FromString(body)
    if signal == "traces":
        return sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)  # type: ignore[attr-defined]
    metrics = (metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics)  # type: ignore[attr-defined]
    return sum(len(getattr(one, one.WhichOneof("data")).data_points) for one in metrics)


def _adjust(signal: str, wanted: float) -> None:
    """Have all together send so many items a second."""
    factor = sum(template.items / every for every, template in _of(signal)) / wanted
    for speaker in _FLEET:
        speaker.requests[:] = [
            (every * factor if template.path.endswith(signal) else every, template)
            for every, template in speaker.requests
        ]


def _of(signal: str) -> Iterator[tuple[float, Template]]:
    return (one for speaker in _FLEET for one in speaker.requests if one[1].path.endswith(signal))


if __name__ == "__main__":
    serve(prepare=prepare, replay=replay)
