"""What a program could notice of us, printed as JSON: run once plainly and once instrumented, by test_unchanged.

usage: unchanged_program.py with|without TARGETS
"""

import asyncio
import contextvars
import importlib
import inspect
import json
import pickle
import random
import re
import sys
import warnings

import numpy as np
import torch
from ray import cloudpickle
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.base.worker import Worker
from verl.utils.profiler import marked_timer, simple_timer
from verl.utils.tracking import Tracking
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

OBSERVED = sys.argv[1] == "with"
if OBSERVED:
    import verl_otel

    verl_otel.instrument()

facts = {}
MODULES = json.loads(sys.argv[2])


def shown(thing):
    return re.sub(r"0x[0-9a-f]+", "0x", repr(thing))


def described(name, owner, attribute):
    static = inspect.getattr_static(owner, attribute)
    found = getattr(owner, attribute)
    facts[name] = {
        "kind": type(static).__name__,
        "signature": str(inspect.signature(found)),
        "names": [found.__name__, found.__qualname__, found.__module__, found.__doc__],
        "coroutine": [inspect.iscoroutinefunction(found), asyncio.iscoroutinefunction(found)],
        "generator": inspect.isgeneratorfunction(found),
        "source": inspect.getsource(found),
        "repr": shown(found),
        "marks": sorted(key for key in vars(found) if not key.startswith("__")),
        "annotations": sorted(found.__annotations__),
    }


for module, attribute in MODULES:
    owner = importlib.import_module(module)
    *path, name = attribute.split(".")
    for part in path:
        owner = getattr(owner, part)
    described(f"{module}.{attribute}", owner, name)
    if isinstance(owner, type):
        facts[f"pickle of {module}.{path}"] = [pickle.dumps(owner).hex(), cloudpickle.dumps(owner).hex()]

for owner in (ActorRolloutRefWorker, TrainingWorker):
    for name, found in sorted(vars(owner).items()):
        if callable(found) and hasattr(found, "attrs_3141562937"):
            described(f"{owner.__name__}.{name}", owner, name)

variable = contextvars.ContextVar("variable", default="unset")


class Mine(Worker):
    def __init__(self):
        pass

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def add(self, a, b=2, *rest, **named):
        """Adds."""
        return [a, b, rest, named, random.random(), float(np.random.rand()), float(torch.rand(()))]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def wait(self, seconds):
        variable.set("set inside")
        await asyncio.sleep(seconds)
        return asyncio.current_task().get_name()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def fail(self, error):
        try:
            {}["context"]
        except KeyError:
            raise error from CAUSE

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def numbers(self):
        yield 1
        return 2


CAUSE = OSError("cause")
random.seed(1)
np.random.seed(1)
torch.manual_seed(1)
worker = Mine()
if OBSERVED:  # as `Worker.__init__` has it done, which needs an environment of Ray's
    from verl_otel.instrumentors.workers import wrap_class

    wrap_class(Mine)
described("Mine.add", Mine, "add")
described("Mine.wait", Mine, "wait")


def raised(call):
    error = ValueError("mine")
    error.add_note("a note") if hasattr(error, "add_note") else None
    try:
        call(error)
    except BaseException as found:
        return [
            found is error,
            found.__cause__ is CAUSE,
            type(found.__context__).__name__,
            found.__suppress_context__,
            getattr(found, "__notes__", None),
            [str(one) for one in found.args],
        ]


def in_timer(error):
    with marked_timer("gen", {}):
        raise error


class Backend:
    def log(self, data, step):
        raise data["error"]


def in_log(error):
    tracking = Tracking("p", "e", [])
    tracking.logger["mine"] = Backend()
    tracking.log({"error": error}, 1)


async def tasks():
    named = asyncio.create_task(worker.wait(0), name="mine")
    done = await named
    inline = await worker.wait(0)
    cancelled = asyncio.create_task(worker.wait(60))
    await asyncio.sleep(0)
    cancelled.cancel("a message")
    try:
        await cancelled
    except asyncio.CancelledError as error:
        reason = [str(one) for one in error.args]
    return [done, inline, variable.get(), cancelled.cancelled(), reason, inspect.iscoroutine(worker.wait(0))]


if OBSERVED:
    from verl_otel.telemetry import steps

    steps.trainer_started(lambda: 1)

timing = {}
with marked_timer("step", timing), simple_timer("gen", timing):
    results = [worker.add(1), worker.add(1, 3, 4, key=5)]
facts["results"] = results
facts["timing"] = sorted(timing)
facts["generator"] = list(worker.numbers())
facts["tracking"] = Tracking("p", "e", []).log({"a": 1}, 1)
facts["raised"] = {call.__name__: raised(call) for call in (worker.fail, in_timer, in_log)}
warnings.simplefilter("ignore")
facts["tasks"] = asyncio.run(tasks())
if OBSERVED:
    from verl_otel import runtime

    meter, tracer = runtime.current().meter, runtime.current().tracer
    kinds = [getattr(meter, f"create_{kind}") for kind in ("counter", "up_down_counter", "histogram", "gauge")]
    made = [kind(f"i{number}") for number, kind in enumerate(kinds)]
    for _ in range(50):
        with tracer.start_as_current_span("sampled"):
            for one in made:
                (getattr(one, "add", None) or getattr(one, "record", None) or one.set)(1)
    assert runtime.flush(20)
facts["random"] = [
    str(random.getstate()),
    str(np.random.get_state()),
    str(torch.random.get_rng_state().tolist()),
    random.random(),
]
print("FACTS" + json.dumps(facts, default=str))
