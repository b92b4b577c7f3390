"""A fuzz of the real `Tracking.log`: training notices nothing, good values arrive exactly, what is left out counts."""

import collections
import contextlib
import decimal
import enum
import fractions
import inspect
import itertools
import logging
import math
import random
import sys
import warnings
from dataclasses import make_dataclass

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")
torch = pytest.importorskip("torch")

from verl.utils.tracking import Tracking  # noqa: E402

import verl_otel  # noqa: E402
from otlp_server import HttpSink  # noqa: E402
from verl_otel import runtime, semconv  # noqa: E402
from verl_otel.guard import failures  # noqa: E402

VALUES = 100_000
PAIRS = 100  # in a call
GOOD = 30  # of them, whose floats are known
FLUSH = 200  # calls; 1,024 may wait
MAX_KEYS = 5_000  # so that many are cut

LARGE = "x" * 1_000_000
Colour = enum.Enum("Colour", "RED")
Level = enum.IntEnum("Level", "LOW HIGH")
Point = make_dataclass("Point", [("x", float, 1.0)])


def raising(error):
    def trap(*_, **__):
        raise error

    return trap


# Even the text of an error may be an error.
OurOwnError = type("OurOwnError", (Exception,), {name: raising(RuntimeError) for name in ("__str__", "__repr__")})
ERROR = OurOwnError()


def having(base=object, **body):
    """An instance of a new class with this body."""
    made = type("Hostile", (base,), body)
    return made.__new__(made)


def hostile(rng):
    """An object that raises or lies wherever it is asked."""
    body = {}
    for name in rng.sample(TRAPS, rng.randint(1, len(TRAPS))):
        trap = raising(rng.choice(ERRORS))
        body[name] = rng.choice((trap, property(trap), rng.choice(LIES)))
    return having(rng.choice(BASES), **body)


ERRORS = (ValueError, TypeError, AttributeError, KeyError, StopIteration, RecursionError, MemoryError, OurOwnError)
BASES = (object, int, float, str, dict, list, tuple, collections.OrderedDict, decimal.Decimal, torch.Tensor)
TRAPS = ("__float__", "__int__", "__index__", "__bool__", "__str__", "__repr__", "__eq__", "__ne__", "__lt__", "__gt__")
TRAPS += (
    "__len__",
    "__iter__",
    "__getitem__",
    "__array__",
    "__class__",
    "__getattr__",
    "numel",
    "size",
    "item",
    "shape",
)
LIES = (None, 1, 0, "1", 1.5, math.nan, (), [1], lambda *_: 1, lambda *_: "one", lambda *_: [1.0], 10**400)
REFUSING = having(__getattribute__=raising(RuntimeError))
AGREEING = having(__getattr__=lambda self, _: self, __call__=lambda self: self, __ne__=lambda self, _: self)


def typed_numbers():
    """(value, float) of every NumPy and torch type that holds numbers, 0-d and of one element, and of Python's own."""
    for kind in [np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + "efd"]:
        yield from (
            (kind(1), 1.0),
            (np.array(0, kind), 0.0),
            (np.array([[1]], kind), 1.0),
            (np.ones(3, kind)[1:2], 1.0),
        )
    for kind in {one for one in vars(torch).values() if isinstance(one, torch.dtype) and not one.is_complex}:
        with contextlib.suppress(RuntimeError, NotImplementedError):  # types of bits hold no numbers
            for shape in ((), (1,), (1, 1, 1)):
                made = torch.ones(shape).to(kind)
                yield made, float(made.item())
    learned = torch.tensor(0.5, requires_grad=True)
    yield from ((learned, 0.5), (learned * 3, 1.5), (torch.nn.Parameter(torch.tensor([2.0])), 2.0), (Level.HIGH, 2.0))
    yield from ((10**400, math.inf), (-(10**400), -math.inf), (2**70, 2.0**70), (True, 1.0), ([7], 7.0), ([(8,)], 8.0))
    yield from ((number, number) for number in (math.nan, math.inf, -math.inf, -0.0, 5e-324, sys.float_info.max))


def odd_values():
    """What is no number, or hardly one."""
    itself, deep, one = [], [], torch.ones(1)
    itself.append(itself)
    for _ in range(100_000):
        deep = [deep]
    yield from (itself, deep, [itself, itself], {"a": {"b": [1, {}]}}, {1, 2}, frozenset(), [], (), {}, [[]], range(1))
    yield from (None, "", "1.0", "\ud800", "\0", "\u202eabc", "\U0001f525", LARGE, b"", b"\xff", memoryview(b"a"))
    yield from (decimal.Decimal("sNaN"), decimal.Decimal(1), fractions.Fraction(1, 3), 1j, NotImplemented, Ellipsis)
    yield from (object(), object, Colour.RED, Colour, Point(), Point, sys, len, lambda: 1, ERROR, AGREEING, REFUSING)
    yield from (np.array(one) for one in ("a", b"a", [], [1, 2], None, [[1, "a"]], np.datetime64("NaT"), 1j))
    yield from (
        np.array([1, itself, 2], object)[1:2],
        np.zeros(1, "i4,f4"),
        np.zeros(1, "V8"),
        np.ma.masked,
        np.float32,
    )
    yield from (np.str_("1"), np.longdouble(1), np.clongdouble(1), np.datetime64(1, "ns"), np.timedelta64(3, "s"))
    yield from (torch.ones(3), torch.ones(0), torch.ones(1, dtype=torch.complex64), torch.ones(1, device="meta"))
    yield from (one.to_sparse(), one[None].to_sparse_csr(), torch.nested.nested_tensor([one, one]), torch.Size([1]))
    yield from (torch.nested.nested_tensor([one]), torch.quantize_per_tensor(one, 0.5, 0, torch.quint8), torch.float32)


def an_odd_value(rng, odd):
    """One of the odd ones, or a new hostile one; perhaps inside others."""
    value = hostile(rng) if rng.random() < 0.5 else rng.choice(odd)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        held = np.empty(1, object)
        held[0] = value
        value = rng.choice(([value], (value,), {"a": value}, held, [value, value], iter([value])))
    return value


class Unequal(str):
    """A key that is found again by its hash, and can't be compared then."""

    __hash__ = str.__hash__
    __eq__ = raising(RuntimeError)
    __str__ = lambda self: self  # noqa: E731 - a text of its own class again


OFTEN = (None, True, math.nan, 1.5, (), (1, ("a",)), b"k", Colour.RED, int, np.float32(2), frozenset({1}), 10**5000)
TEXTS = ("", "/", "//a//", "A/mean", "perf/x_gb/", "timing_s/", "val-core/a/b/", "step/", "phase.x", "\0", "\n", "%s")
TEXTS += ("\u202e", "\U0001f525", "İ", "val-core/" + "a/" * 2000, "timing_s/agent_loop/x/mean", "y" * 300)


def a_new_key(rng, number):
    """A key of any type that never came before."""
    text = "".join(chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(5))
    named = f"{rng.choice(TEXTS)}{text}{number}"
    return rng.choice((named, named, named, number, -number, number + 0.5, (number,), f"{number}".encode()))


def logged_pairs(rng, step, numbers, odd):
    """(data of one call, the floats of its good values by key)."""
    good = {f"good/{n}": rng.choice(numbers) for n in range(GOOD - 2)}
    good |= {"good/int": (step, float(step)), "good/float": ((exact := rng.uniform(-1e300, 1e300)), exact)}
    data = {key: value for key, (value, _) in good.items()} | {key: an_odd_value(rng, odd) for key in OFTEN}
    data |= {Unequal("unequal"): 1.0, having(__str__=raising(KeyError)): 1.0}
    if step % 300 == 0:
        data[LARGE + str(step)] = 1.0
    while len(data) < PAIRS:
        key = a_new_key(rng, 1000 + step * PAIRS + len(data))
        data[key] = rng.choice(numbers)[0] if rng.random() < 0.2 else an_odd_value(rng, odd)
    return data, {key: number.hex() for key, (_, number) in good.items()}


@pytest.fixture
def sink(monkeypatch):
    """A backend; `Tracking` is instrumented."""
    with HttpSink() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("VERL_OTEL_MAX_KEYS", str(MAX_KEYS))
        verl_otel.instrument()
        yield found
        verl_otel.uninstrument()


def received(sink):
    """Snapshots, as (step, [(key, value), ...]), and what the last collection counted, by metric name."""
    snapshots, counted = [], {}
    for body in [body for path, body in sink.accepted if path == "/v1/metrics"]:
        (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
        found = {one.name: one for scope in resource.scope_metrics for one in scope.metrics}
        if mark := found.pop("verl.step.snapshot", None):
            points = []
            for point in (point for one in found.values() for point in one.gauge.data_points):
                keys = [one.value.string_value for one in point.attributes if one.key == "verl.metric.key"]
                points.append((keys[0] if keys else None, point.as_double))
            snapshots.append((mark.gauge.data_points[0].as_double, points))
        elif resource.scope_metrics[0].scope.name == semconv.SCOPE:  # not what was read of the host
            counted = {name: sum(point.as_double for point in one.sum.data_points) for name, one in found.items()}
    return snapshots, counted


def state_of(values):
    """What would be another if a value were changed, or random numbers drawn."""
    drawn = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()
    tensors = [value._version for value in values if type(value) in (torch.Tensor, torch.nn.Parameter)]
    return drawn, tensors, [value.tobytes() for value in values if type(value) is np.ndarray and value.dtype != object]


def test_whatever_is_logged_costs_itself_alone_and_is_counted(sink, caplog):
    rng, tracking, pulled = random.Random(20), Tracking("p", "e", []), (one for one in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of what it has only begun
        numbers, odd = list(typed_numbers()), [*odd_values(), pulled]
    values, expected, pairs = [*odd, *(value for value, _ in numbers)], {}, 0
    before = state_of(values)
    with caplog.at_level(logging.WARNING):
        for step in range(VALUES // PAIRS):
            data, expected[step] = logged_pairs(rng, step, numbers, odd)
            pairs += len(data)
            assert tracking.log(data, step) is None
            if step % FLUSH == FLUSH - 1:
                assert runtime.flush(30)
    assert state_of(values) == before
    assert list(pulled) == [0, 1, 2]
    snapshots, counted = received(sink)
    assert [step for step, _ in snapshots] == list(expected)
    for step, points in snapshots:
        assert {key: value.hex() for key, value in points if key in expected[step]} == expected[step]
    points = sum(len(points) for _, points in snapshots)
    skipped, cut, errors = (counted[f"verl.{one}"] for one in ("metric.skipped", "metric.cut", "telemetry.errors"))
    print(f"{pairs} pairs: {points} points, {skipped:.0f} no number, {cut:.0f} cut, {errors:.0f} failed alone")
    assert pairs == VALUES == points + skipped + cut + errors
    assert min(points, skipped, cut, errors) > VALUES / 100
    assert failures.counts() == {"scalar": errors}
    assert runtime.current().pipeline.statistics().dropped == {}
    assert len(caplog.records) == 1, caplog.messages  # the first failure, with its traceback


class Reader:
    """A backend that reads what it is given, and lets through what that raises."""

    def log(self, data, step):
        int(step)
        return [data[key] for key in data.keys()], data.items()  # noqa: SIM118 - as a backend may


READ = ("keys", "items", "__iter__", "__getitem__", "__len__")
DATA = [type("Data", (base,), {one: raising(ERROR)})(a=1.0) for base in (dict, collections.UserDict) for one in READ]
DATA += [type("Data", (collections.UserDict,), {"items": lambda _: [("b", 2)], "__len__": lambda _: 7})(a=1.0)]
DATA += [{"a": 1.0}, collections.defaultdict(int, a=1), {}, None, 3, "text", [("a", 1.0)], [1, 2], AGREEING, REFUSING]
STEPS = [0, -1, True, 2.7, "7", np.int64(3), np.array(3), torch.tensor(4), 10**400, None, "x", math.nan, math.inf, [1]]
STEPS += [np.array([1, 2]), torch.ones(1, device="meta"), 1j, having(__int__=raising(ERROR)), REFUSING]


def outcome(call, *args):
    """What a call raised: the object if it is ours, else its type and text; None if it returned."""
    try:
        assert call(*args) is None
    except OurOwnError as error:
        return error
    except Exception as error:
        return type(error), str(error)


def test_hostile_data_and_steps_raise_what_they_would_have_raised_and_are_counted(sink, caplog):
    tracking, plain, calls = Tracking("p", "e", []), inspect.unwrap(Tracking.log), 0
    assert plain is not Tracking.log
    for tracking.logger in ({}, {"reader": Reader()}):
        for data, step in itertools.product(DATA, STEPS):
            found, as_before = (outcome(log, tracking, data, step) for log in (Tracking.log, plain))
            assert found is as_before or found == as_before
            calls += 1
    assert outcome(Tracking.log, tracking) == outcome(plain, tracking)  # its arguments are missing
    assert runtime.flush(30)
    lost = failures.counts()["queueing scalars"] - 1 + failures.counts()["snapshot"]
    snapshots, _ = received(sink)
    print(f"{calls} calls: {len(snapshots)} snapshots, {lost} without a step or data")
    assert len(snapshots) + lost == calls
    assert len(snapshots) > 100
    assert len(caplog.records) == 2, caplog.messages  # the first of each place


def test_an_iterator_given_as_data_is_not_consumed(sink):
    data = iter([("a", 1.0)])
    Tracking("p", "e", []).log(data, 1)
    assert list(data) == [("a", 1.0)]


def test_a_key_that_utf8_cannot_hold_keeps_its_point_and_nothing_is_said_of_it(sink, caplog):
    Tracking("p", "e", []).log({"a\ud800b": 1.0, "\udfff": 2.0, "c": 3.0}, 1)
    assert runtime.flush(30)
    ((_, points),) = received(sink)[0]
    assert [value for _, value in points] == [1.0, 2.0, 3.0]
    assert len({key for key, _ in points} - {None}) == 3
    assert caplog.messages == []


def test_an_array_that_changes_after_the_call_is_logged_as_it_was(sink):
    tensor, array = torch.tensor(5.0), np.array([7.0])
    Tracking("p", "e", []).log({"tensor": tensor, "array": array}, 1)
    tensor.zero_()
    array[:] = 0
    assert runtime.flush(30)
    assert received(sink)[0] == [(1.0, [("tensor", 5.0), ("array", 7.0)])]


@pytest.mark.parametrize("error", [SystemExit, BaseException])
def test_a_value_that_would_end_a_thread_does_not_end_ours(sink, error):
    Tracking("p", "e", []).log({"a": having(size=1, item=raising(error)), "b": 2.0}, 1)
    assert runtime.flush(5)
    assert received(sink)[0] == [(1.0, [("b", 2.0)])]
    assert failures.counts() == {"scalar": 1}
