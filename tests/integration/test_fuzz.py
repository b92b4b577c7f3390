"""A fuzz of the real `Tracking.log`: whatever is logged, training sees nothing, good values arrive, the rest is counted."""

import builtins
import collections
import dataclasses
import decimal
import enum
import fractions
import logging
import math
import random
import sys
import warnings

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")
torch = pytest.importorskip("torch")

import verl_otel  # noqa: E402
from otlp_server import HttpSink  # noqa: E402
from verl_otel import runtime  # noqa: E402

VALUES = 100_000
PAIRS = 100  # in one call
GOOD = 40  # of them, under keys that come again
CALLS = VALUES // PAIRS
FLUSH = 200  # calls; at most 1,024 wait
MAX_KEYS = 4_000  # so that many are cut
LARGE = "x" * 1_000_000


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float = 1.0


class OurOwnError(Exception):
    """Even the exception is hostile."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Anything:
    def __getattr__(self, name):
        return self

    __call__ = __ne__ = lambda self, *_: self


class Refusing:
    def __getattribute__(self, name):
        raise RuntimeError(name)


ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    ZeroDivisionError,
    KeyError,
    StopIteration,
    RecursionError,
    MemoryError,
)
ERRORS += (UnicodeDecodeError, OurOwnError)
BASES = (object, object, int, float, str, dict, list, tuple, collections.OrderedDict, decimal.Decimal, torch.Tensor)
TRAPS = [
    "__float__",
    "__int__",
    "__index__",
    "__bool__",
    "__str__",
    "__repr__",
    "__format__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__gt__",
    "__len__",
    "__iter__",
    "__contains__",
    "__getitem__",
    "__array__",
    "__class__",
    "__getattr__",
    "__hash__",
    "numel",
    "size",
    "item",
    "shape",
    "dtype",
    "ndim",
    "tolist",
]
LIES = (None, 1, 0, -1, "1", 1.5, math.nan, (), [1], lambda *_: 1, lambda *_: "one", lambda *_: [1.0], 10**400)


def raising(kind):
    def trap(*_, **__):
        raise kind("utf-8", b"", 0, 1, "ours") if kind is UnicodeDecodeError else kind("ours")

    return trap


def hostile(rng):
    """An object of a class of its own, which raises or lies wherever it is asked."""
    body = {}
    for name in rng.sample(TRAPS, rng.randint(1, len(TRAPS))):
        trap = raising(rng.choice(ERRORS))
        body[name] = rng.choice((trap, property(trap), rng.choice(LIES)))
    if not callable(body.get("__hash__", len)):
        del body["__hash__"]
    made = type("Hostile", (rng.choice(BASES),), body)
    return made.__new__(made)


def typed_numbers():
    """(value, float) of every NumPy and torch type that holds a number, 0-d and of one element."""
    for kind in {np.dtype(code).type for code in np.typecodes["AllInteger"] + "efd?"}:
        for number in (0, 1):
            yield from (
                (one, float(number)) for one in (kind(number), np.array(number, kind), np.array([[number]], kind))
            )
    for kind in {one for one in vars(torch).values() if isinstance(one, torch.dtype) and not one.is_complex}:
        for shape in ((), (1,), (1, 1, 1)):
            try:
                made = torch.ones(shape).to(kind)
                yield made, made.item()
            except (RuntimeError, NotImplementedError):
                continue  # a type of bits, without numbers
    learned = torch.tensor(0.5, requires_grad=True)
    yield from ((learned, 0.5), (learned * 3, 1.5), (torch.nn.Parameter(torch.tensor([2.0])), 2.0), (Level.HIGH, 3.0))
    yield from ((10**400, math.inf), (-(10**400), -math.inf), (math.nan, math.nan), (-0.0, -0.0), (5e-324, 5e-324))
    yield from ((2**70, 2.0**70), (True, 1.0), (np.float64(math.inf), math.inf), ([7], 7.0), ((np.array([8]),), 8.0))


def odd_values():
    """What is no number, or may be one; most are logged again and again."""
    itself = []
    itself.append(itself)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    yield from (itself, deep, [itself, itself], {"a": {"b": [1, {}]}}, {1, 2}, frozenset(), [], (), {}, [[]], range(1))
    yield from (
        None,
        "",
        "1.0",
        "\ud800",
        "\0",
        "\u202eabc",
        "\U0001f525",
        LARGE,
        b"",
        b"\xff",
        bytearray(1),
        memoryview(b"a"),
    )
    yield from (decimal.Decimal("sNaN"), decimal.Decimal(1), fractions.Fraction(1, 3), 1j, NotImplemented, Ellipsis)
    yield from (
        object(),
        object,
        int,
        Colour.RED,
        Colour,
        Point(),
        Point,
        sys,
        builtins,
        len,
        lambda: 1,
        ValueError("x"),
    )
    yield from (Anything(), Refusing(), type("", (), {})(), collections.Counter("ab"), logging.getLogger("x"))
    yield from (
        np.array(["a"]),
        np.array([b"a"]),
        np.array([]),
        np.arange(3),
        np.array([None]),
        np.array([1, "a"], object),
    )
    yield from (
        np.array([itself, 1], object)[:1],
        np.zeros(1, "i4,f4"),
        np.zeros(1, "V8"),
        np.ma.masked,
        np.str_("1"),
        np.void(b"1"),
    )
    yield from (np.array(1, kind) for kind in "FDG")
    yield from (
        np.longdouble(1),
        np.datetime64("2020"),
        np.datetime64(1, "ns"),
        np.timedelta64(3, "s"),
        np.datetime64("NaT"),
    )
    ones = torch.ones(1)
    yield from (torch.ones(3), torch.ones(0), torch.ones(1, dtype=torch.complex64), torch.ones(1, device="meta"))
    yield from (
        ones.to_sparse(),
        ones[None].to_sparse_csr(),
        torch.nested.nested_tensor([ones]),
        torch.Size([1]),
        torch.float32,
    )
    yield from (
        torch.nested.nested_tensor([ones, torch.ones(2)]),
        torch.quantize_per_tensor(ones, 0.5, 0, torch.quint8),
    )


KEYS = (
    None,
    True,
    math.nan,
    1.5,
    (),
    (1, ("a",)),
    b"k",
    Colour.RED,
    int,
    len,
    np.float32(2),
    np.str_("n"),
    frozenset({1}),
)
TEXTS = (
    "",
    "/",
    "//a//",
    ".",
    "a b",
    "A/mean",
    "perf/x_gb",
    "timing_s/",
    "timing_s/agent_loop/x/mean",
    "val-core/a/b/c/mean@1",
)
TEXTS += (
    "step",
    "phase/x",
    "\0",
    "\n",
    "\u202e",
    "\U0001f525",
    "İ",
    "%s",
    "{}",
    "val-core/" + "a/" * 2000,
    "verl.step.snapshot",
)


def a_key(rng, number):
    """A key of any type; where it is a text, one that hasn't come before."""
    kind = rng.randrange(12)
    if kind == 0:
        return rng.choice(KEYS)
    if kind == 1:
        return rng.choice((number, -number, float(number), (number,), 10**5000 + number))
    if kind == 2:  # one that its dict holds already may turn hostile
        return type(
            "Key", (), {name: raising(rng.choice(ERRORS)) for name in ("__str__", "__repr__", "__eq__")} | HASHED
        )()
    if kind == 3:
        return type("Text", (str,), {"__eq__": raising(ValueError), "__str__": lambda self: self} | HASHED)(
            f"text {number}"
        )
    text = "".join(
        chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(rng.randrange(9))
    )
    return f"{rng.choice(TEXTS)}{text}{number}"


HASHED = {"__hash__": object.__hash__}


def a_value(rng, odd):
    """One of the odd ones or a new hostile one, perhaps inside others."""
    value = hostile(rng) if rng.random() < 0.4 else rng.choice(odd)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        held = np.empty(1, object)
        held[0] = value
        value = rng.choice(([value], (value,), {"a": value}, held, [value, value], iter([value])))
    return value


@pytest.fixture
def sink(monkeypatch):
    """What a backend got; `Tracking` is instrumented."""
    with HttpSink() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("VERL_OTEL_MAX_KEYS", str(MAX_KEYS))
        verl_otel.instrument()
        yield found
        verl_otel.uninstrument()


def metrics(body):
    """Points by metric name."""
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    found = [metric for scope in resource.scope_metrics for metric in scope.metrics]
    return {one.name: list(one.gauge.data_points) or list(one.sum.data_points) for one in found}


def received(sink):
    """(snapshots by step: points by key, all of them), and the last collection's counters, by attribute value."""
    steps, counted = [], {}
    for found in (metrics(body) for path, body in list(sink.accepted) if path == "/v1/metrics"):
        if mark := found.pop("verl.step.snapshot", None):
            points = [(one.attributes, one.as_double) for points in found.values() for one in points]
            keyed = {
                one.value.string_value: value for all_, value in points for one in all_ if one.key == "verl.metric.key"
            }
            steps.append((mark[0].as_double, keyed, len(points)))
        else:
            counted |= {
                name: {
                    point.attributes[0].value.string_value if point.attributes else "": point.as_double
                    for point in points
                }
                for name, points in found.items()
                if name.startswith(("verl.metric.", "verl.telemetry."))
            }
    return steps, counted


def random_states():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()


def test_whatever_is_logged_costs_itself_alone_and_is_counted(sink, caplog):
    from verl.utils.tracking import Tracking

    rng = random.Random(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch on its own prototypes
        numbers, odd = list(typed_numbers()), list(odd_values())
    watched = [value for value in [*odd, *(value for value, _ in numbers)] if type(value) is torch.Tensor]
    versions = [value._version for value in watched if not value.is_inference()]
    pulled = iter(range(3))
    lengths = [len(value) for value in odd if isinstance(value, list | dict)]
    tracking, expected, pairs, before = Tracking("p", "e", []), {}, 0, random_states()
    with caplog.at_level(logging.WARNING):
        for step in range(CALLS):
            chosen = [(float(n), float(n)) if n % 2 else rng.choice(numbers) for n in range(GOOD - 1)]
            good = {f"good/{n}": one for n, one in enumerate([*chosen, (step + rng.random(),) * 2])}
            data = {key: value for key, (value, _) in good.items()}
            data["pulled"] = pulled
            if step % 250 == 0:
                data[LARGE + str(step)] = 1.0
            taken = {str(key) for key in data}
            while len(data) < PAIRS:
                key = a_key(rng, step * PAIRS + len(data))
                if type(key).__name__ == "Key" or (str_(key) not in taken):
                    taken.add(str_(key))
                    data[key] = a_value(rng, odd)
            pairs += len(data)
            expected[step] = {key: number.hex() for key, (_, number) in good.items()}
            assert tracking.log(data, step) is None
            del data
            if step % FLUSH == FLUSH - 1:
                assert runtime.flush(30)
    assert runtime.flush(30)
    assert random_states() == before
    assert [value._version for value in watched if not value.is_inference()] == versions
    assert [len(value) for value in odd if isinstance(value, list | dict)] == lengths
    assert list(pulled) == [0, 1, 2]
