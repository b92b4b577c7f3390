"""How processes end, and multiply: what has arrived after an exit, a signal or a fork, in processes of their own.

Guaranteed: an end by which Python runs its exit handlers (the program's end, an exception, `sys.exit`, Ctrl-C) loses
nothing if the backend takes it within VERL_OTEL_FLUSH_TIMEOUT. One by which it doesn't (SIGTERM as Python treats it,
SIGKILL, `os._exit`) loses at most what was recorded in its last second; a child of `multiprocessing`'s fork ends so.
"""

import signal
import time
from collections import Counter

import pytest

from otlp_server import HttpSink, Relay
from recorded import recorded
from recorder import Recorder
from sending import HTTP, SINKS, environment, eventually, over_both, run, start, unused_port

RECORD = """
import os, signal, sys, time
from verl_otel import runtime
from verl_otel.telemetry import events, scalars

def record(first, last):
    for number in range(first, last):
        runtime.current().tracer.start_span(str(number)).end()
    scalars.log({"loss": 0.5}, first, lambda key: scalars.ScalarName("verl." + key))
    events.emit(f"event {first}", {})

def ready():
    print("ready", flush=True)
"""

# A busy machine may need more than the default to import what sends.
PATIENT = {"VERL_OTEL_FLUSH_TIMEOUT": "30"}
NUMBERS = [str(number) for number in range(1000)]


def all_arrived(sink, steps=(0,)):
    return (sink.spans(), sink.steps(), sink.records()) == (NUMBERS, list(steps), [f"event {one}" for one in steps])


# Ends


@over_both
@pytest.mark.parametrize(
    ("end", "expected"),
    [("", 0), ("sys.exit(3)", 3), ("raise RuntimeError('of the user')", 1)],
)
def test_a_process_that_records_and_ends_at_once_loses_nothing(protocol, end, expected):
    with SINKS[protocol]() as sink:
        _, err, status, _ = run(f"{RECORD}\nrecord(0, 1000)\n{end}", environment(sink.endpoint, protocol, **PATIENT))
        assert status == expected, err
        assert all_arrived(sink)
    assert "verl-otel" not in err


@over_both
def test_a_process_that_records_only_at_its_end_loses_nothing(protocol):
    # Everything that delivery imports is imported when no thread can be started any more.
    program = f"{RECORD}\nimport atexit\nruntime.current()\natexit.register(record, 0, 1000)"
    with SINKS[protocol]() as sink:
        _, err, status, _ = run(program, environment(sink.endpoint, protocol, **PATIENT))
        assert status == 0, err
        assert all_arrived(sink)
    assert err == ""


def test_ctrl_c_in_the_middle_of_work_loses_nothing():
    with HttpSink() as sink:
        process = start(
            f"{RECORD}\nready()\nrecord(0, 1000)\ntime.sleep(60)", environment(sink.endpoint, HTTP, **PATIENT)
        )
        assert process.stdout.readline() == "ready\n"
        assert eventually(sink.spans)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        assert all_arrived(sink)
    assert "KeyboardInterrupt" in err
    assert "verl-otel" not in err


@over_both
def test_a_second_ctrl_c_ends_a_process_whose_backend_hangs(protocol):
    with SINKS[protocol]() as sink, Relay(sink, trickle=True) as relay:
        variables = environment(relay.endpoint, protocol, VERL_OTEL_FLUSH_TIMEOUT="60")
        program = f"{RECORD}\nrecord(0, 1000)\nready()\ntime.sleep(60)"
        process = start(program, variables)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert not eventually(lambda: process.poll() is not None, 2)  # it flushes
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode != 0


def test_sigterm_loses_at_most_the_last_second():
    program = f"{RECORD}\nrecord(0, 1000)\nready()\nsys.stdin.readline()\nrecord(1000, 1100)\nready()\ntime.sleep(60)"
    with HttpSink() as sink:
        process = start(program, environment(sink.endpoint, HTTP, **PATIENT))
        assert process.stdout.readline() == "ready\n"
        assert eventually(lambda: all_arrived(sink), 10)  # by itself, without a flush
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, err = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGTERM
        assert sink.spans()[:1000] == NUMBERS
        assert max(Counter(sink.spans()).values()) == 1
        assert set(sink.spans()) <= {str(number) for number in range(1100)}
    assert err == ""


def test_sigterm_that_the_program_turns_into_an_exit_loses_nothing():
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    with HttpSink() as sink:
        process = start(
            f"{RECORD}\n{handler}\nrecord(0, 1000)\nready()\ntime.sleep(60)",
            environment(sink.endpoint, HTTP, **PATIENT),
        )
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert all_arrived(sink)


@over_both
def test_a_slow_reader_does_not_stop_the_exit(protocol):
    with SINKS[protocol]() as sink, Relay(sink, trickle=True) as relay:
        program = f"{RECORD}\nrecord(0, 20_000)\nprint(time.time())"
        out, err, status, _ = run(program, environment(relay.endpoint, protocol))
        assert status == 0, err
        # At most VERL_OTEL_FLUSH_TIMEOUT, with room for a busy machine; to send it all would take minutes.
        assert time.time() - float(out) < 15
    (line,) = err.strip().splitlines()
    assert "could not be sent before the end" in line or "can't be reached" in line


# Children

FORK = """
record(0, 100)
children = []
for number in range(1, 4):
    if (child := os.fork()) == 0:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = sys.argv[1]  # what is the parent's can't go there
        record(100 * number, 100 * number + 100)
        os._exit(0 if runtime.flush(20) else 1)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
record(400, 500)
ready()
sys.stdin.readline()
while runtime.current().pipeline.statistics().queued_items:
    time.sleep(0.05)
"""

FORK_IN_AN_IMPORT = """
import threading

class Slow:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            importing.set()
            time.sleep(1)

importing = threading.Event()
sys.meta_path.insert(0, Slow())
record(0, 100)
assert importing.wait(30)
if (child := os.fork()) == 0:
    record(100, 200)
    deadline = time.monotonic() + 20
    while (arrived := len(runtime.current().pipeline.statistics().exported)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(0 if arrived == 3 else 1)
assert os.waitpid(child, 0)[1] == 0
"""

CHILDREN = """
import multiprocessing

def child(number):
    record(100 * number, 100 * number + 100)
    if multiprocessing.get_start_method() != "spawn":  # such a child ends without its exit handlers
        while len(runtime.current().pipeline.statistics().exported) < 3:
            time.sleep(0.05)

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    record(0, 100)
    children = [multiprocessing.Process(target=child, args=(number,)) for number in range(1, 4)]
    for one in children:
        one.start()
    for one in children:
        one.join(60)
    assert [one.exitcode for one in children] == [0, 0, 0]
    record(400, 500)
"""


def check(captures, makers):
    """Five hundred spans, no id twice, each hundred under the identity of the process that made it."""
    found = [recorded(one) for one in captures]
    spans = [span for one in found for span in one.spans]
    assert sorted(int(span.name) for span in spans) == list(range(500))
    assert len({span.id for span in spans}) == len({span.trace for span in spans}) == 500
    by_process = {}
    for span in spans:
        by_process.setdefault((span.process, span.resource["process.pid"]), set()).add(int(span.name) // 100)
    assert sorted(map(sorted, by_process.values())) == makers
    marks = sorted(int(one.value) for part in found for one in part.points if one.metric == "verl.step.snapshot")
    assert marks == [0, 100, 200, 300, 400]
    assert sorted(one.name for part in found for one in part.events) == [f"event {step}" for step in marks]


def test_forked_children_send_their_own_and_nothing_of_what_their_parent_has_queued(tmp_path):
    port = unused_port()
    with Recorder(tmp_path / "children") as receiver:
        process = start(RECORD + FORK, environment(f"http://127.0.0.1:{port}", HTTP), [receiver.endpoint])
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    with Recorder(tmp_path / "parent", port):
        _, err = process.communicate("go on\n", timeout=60)
        assert process.returncode == 0, err
    check([tmp_path / "children", tmp_path / "parent"], [[0, 4], [1], [2], [3]])
    assert {int(span.name) // 100 for span in recorded(tmp_path / "parent").spans} == {0, 4}


@pytest.mark.parametrize("module", ["verl_otel.delivery.encoding", "verl_otel.delivery.http"])
def test_a_fork_while_our_threads_import_leaves_the_child_able_to_deliver(module):
    with HttpSink() as sink:
        _, err, status, _ = run(RECORD + FORK_IN_AN_IMPORT, environment(sink.endpoint, HTTP, **PATIENT), [module])
        assert status == 0, err
        assert sorted(map(int, sink.spans())) == list(range(200))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_of_multiprocessing_lose_nothing(tmp_path, method):
    program = tmp_path / "program.py"  # which spawned children import
    program.write_text(RECORD + CHILDREN)
    with Recorder(tmp_path / "capture") as receiver:
        _, err, status, _ = run(program, environment(receiver.endpoint, HTTP, **PATIENT), [method])
        assert status == 0, err
    check([tmp_path / "capture"], [[0, 4], [1], [2], [3]])
