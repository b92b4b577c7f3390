"""What a page in Prometheus' text format and metric data say, as the same samples: {(name, labels): value}."""

from itertools import accumulate

from prometheus_client.parser import text_string_to_metric_families


def of_text(page):
    """Every sample but the times that series were made at."""
    return {
        (sample.name, frozenset(_number(sample.labels).items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def counting(page):
    """Names of the samples that only ever count on."""
    families = text_string_to_metric_families(page)
    kinds = ("counter", "histogram", "summary")
    return {sample.name for family in families if family.type in kinds for sample in family.samples}


def of_metrics(metrics, without=()):
    """Samples that a backend makes of metric data of the SDK's; `without`: labels that were added."""
    found = {}
    for metric in metrics:
        for point in metric.data.data_points:
            labels = {name: value for name, value in point.attributes.items() if name not in without}
            found |= samples(metric.name, labels, point)
    return found


def samples(name, labels, point):
    """Of one data point: of the SDK's, or of a capture."""
    if not getattr(point, "bucket_counts", None):
        return {(name, frozenset(_number(labels).items())): point.value}
    bounds = [*(float(one) for one in point.explicit_bounds), float("inf")]
    buckets = zip(bounds, accumulate(point.bucket_counts), strict=True)
    return {
        **{(f"{name}_bucket", frozenset({**labels, "le": bound}.items())): count for bound, count in buckets},
        (f"{name}_count", frozenset(labels.items())): point.count,
        (f"{name}_sum", frozenset(labels.items())): point.sum if hasattr(point, "sum") else point.value,
    }


def _number(labels):
    """Bounds as numbers: 1 and 1.0 are the same."""
    return {name: float(value) if name == "le" else value for name, value in labels.items()}
