"""Scalars: every value of every step, in its own snapshot; a bad value costs itself alone."""

import math

import numpy as np
import pytest

from verl_otel.telemetry import scalars
from verl_otel.telemetry.scalars import ScalarName, to_number


class Hostile:
    """Raises in whatever it is asked."""

    def __float__(self):
        raise RuntimeError("no float")

    @property
    def size(self):
        raise RuntimeError("no size")

    __len__ = __iter__ = item = __float__


def describe(key):
    return ScalarName(f"verl.{key}", "s" if key.endswith("_s") else "")


def values(points):
    return {name: [point.value for point in found] for name, found in points.items()}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (3, 3.0),
        (2**70, float(2**70)),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array([2.5]), 2.5),
        (np.array(2.5), 2.5),
        ([4], 4.0),
        ("1.0", None),
        (None, None),
        ([1, 2], None),
        ({}, None),
        (np.array([1, 2]), None),
        (np.array(["a"]), None),
    ],
)
def test_to_number(value, number):
    assert to_number(value) == number


def test_a_snapshot_holds_the_keys_of_its_own_step_and_its_mark(recorded):
    scalars.log({"loss": 1.0, "only_once": 5}, 3, describe)
    scalars.log({"loss": 2.0}, np.int64(4), describe)
    first, second = recorded.snapshots()
    assert values(first) == {"verl.step.snapshot": [3.0], "verl.loss": [1.0], "verl.only_once": [5.0]}
    assert values(second) == {"verl.step.snapshot": [4.0], "verl.loss": [2.0]}
    times = {point.time_unix_nano for found in second.values() for point in found}
    assert len(times) == 1


def test_last_values_are_repeated_without_the_mark(recorded):
    scalars.log({"loss": 1.0, "old": 5}, 1, describe)
    scalars.log({"loss": 2.0}, 2, describe)
    recorded.snapshots()
    repeated = values(recorded.metrics())
    assert repeated["verl.loss"] == [2.0]
    assert repeated["verl.old"] == [5.0]
    assert "verl.step.snapshot" not in repeated


def test_nan_and_infinities_pass_and_are_counted(recorded):
    scalars.log({"a": math.nan, "b": math.inf, "c": 1.0}, 1, describe)
    (snapshot,) = recorded.snapshots()
    assert math.isnan(snapshot["verl.a"][0].value)
    assert math.isinf(snapshot["verl.b"][0].value)
    counted = recorded.metrics()["verl.metric.nonfinite"]
    assert {point.attributes["verl.metric.key"]: point.value for point in counted} == {"a": 1, "b": 1}


def test_bad_values_cost_themselves_alone(recorded):
    scalars.log({"text": "x", "hostile": Hostile(), "good": 1.0, 7: 2.0}, 1, describe)
    (snapshot,) = recorded.snapshots()
    assert values(snapshot) == {"verl.step.snapshot": [1.0], "verl.good": [1.0], "verl.7": [2.0]}
    skipped = recorded.metrics()["verl.metric.skipped"]
    assert {point.attributes["verl.telemetry.type"]: point.value for point in skipped} == {"str": 1}


def test_every_point_carries_verls_own_key_so_that_nothing_collides(recorded):
    scalars.log({"A": 1.0, "a": 2.0}, 1, lambda key: ScalarName("verl.a"))
    (snapshot,) = recorded.snapshots()
    points = {point.attributes["verl.metric.key"]: point.value for point in snapshot["verl.a"]}
    assert points == {"A": 1.0, "a": 2.0}


def test_a_name_has_one_unit_and_a_second_claim_keeps_its_own_name(recorded):
    scalars.log({"x": 1.0, "x_s": 2.0}, 1, lambda key: ScalarName("verl.x", "s" if key == "x_s" else "", scale=3.0))
    (snapshot,) = recorded.snapshots()
    assert values(snapshot) == {"verl.step.snapshot": [1.0], "verl.x": [3.0], "verl.key.x_s": [2.0]}
    assert recorded.metrics()["verl.metric.clashes"][0].value == 1


def test_distinct_keys_are_bounded_and_the_cut_is_counted(recorded, monkeypatch):
    store = scalars._store()
    made = store.snapshot({f"k{n}": n for n in range(10)}, 1, 1, describe, most=4)
    assert len(made) == 5  # four keys and the mark
    assert recorded.metrics()["verl.metric.cut"][0].value == 6


def test_the_callers_dict_may_change_after_logging(recorded):
    data = {"loss": 1.0}
    scalars.log(data, 1, describe)
    data["loss"] = 9.0
    assert values(recorded.snapshots()[0])["verl.loss"] == [1.0]
