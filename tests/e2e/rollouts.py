"""What a run's capture says of its trajectories, put together for the tests."""

from collections import defaultdict
from dataclasses import dataclass

from captured import Capture, CapturedSpan

from verl_otel import semconv


@dataclass
class Told:
    """One trajectory: its root, and everything in its trace."""

    root: CapturedSpan
    spans: list[CapturedSpan]

    def of(self, name):
        """Spans of a name, or whose name begins with it and a blank."""
        return [one for one in self.spans if one.name == name or one.name.startswith(f"{name} ")]

    def __getitem__(self, name):
        return self.root.attributes.get(name)

    @property
    def key(self):
        """As verl's dumps name its first sequence."""
        return f"{self[semconv.SAMPLE_UID]}_{self[semconv.ROLLOUT_SESSION]}_0"

    def server_tokens(self):
        """Tokens that the engine says it gave."""
        return sum(one.attributes.get(semconv.ENGINE_OUTPUT_TOKENS, 0) for one in self.of(semconv.SPAN_GENERATE_SERVER))


def trajectories(capture: Capture, *, validation=None):
    """All of them, or those of training or of validation."""
    traces = defaultdict(list)
    for span in capture.spans:
        traces[span.trace].append(span)
    roots = [one for one in capture.spans if one.name.startswith(f"{semconv.SPAN_AGENT} ") and not one.parent]
    wanted = [one for one in roots if validation in (None, one.attributes[semconv.VALIDATION])]
    return [Told(one, traces[one.trace]) for one in wanted]


def total(capture: Capture, metric, **attributes):
    """The newest values of a counter or a gauge, summed over the series that have these attributes."""
    wanted = _wanted(attributes)
    return sum(
        value
        for series in capture.last(metric.name).values()
        for labels, value in series.items()
        if wanted <= dict(labels).items()
    )


def counted(capture: Capture, name, **attributes):
    """How many values a histogram has, and their sum, by its newest points."""
    newest, wanted = {}, _wanted(attributes)
    for point in sorted((one for one in capture.points if one.metric == name), key=lambda one: one.time):
        if wanted <= point.attributes.items():
            newest[point.process, tuple(sorted(point.attributes.items()))] = point
    return sum(one.count for one in newest.values()), sum(one.value for one in newest.values())


def _wanted(attributes):
    """Attributes as they are called: a dot for each underscore, an underscore for two."""
    return {
        name.replace("__", "-").replace("_", ".").replace("-", "_"): one for name, one in attributes.items()
    }.items()
