"""Locks between processes: held by one, let go by the kernel at its death, not inherited by children, with an inbox."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from verl_otel.hardware import locks
from verl_otel.hardware.locks import Lock

HOLDER = """
import sys, time
from verl_otel.hardware.locks import Lock
lock = Lock(sys.argv[1])
print(lock.acquire(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def name():
    return f"test/{os.getpid()}/{time.time_ns()}"


@pytest.fixture
def holder(name):
    """Another process that holds it."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "True"
        yield process
        process.kill()


def test_one_holds_it_and_only_one(name, holder):
    assert not Lock(name).acquire()


def test_death_lets_go_of_it_at_once(name, holder):
    lock = Lock(name)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock.acquire()
    assert lock.acquire(), "asking again changes nothing"
    lock.release()
    assert Lock(name).acquire()


def test_a_child_does_not_hold_it_for_its_dead_parent(name):
    lock = Lock(name)
    assert lock.acquire()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, b"x")
        time.sleep(60)  # it lives on after the parent has let go
        os._exit(0)
    try:
        os.read(reading, 1)
        lock.release()
        other = Lock(name)
        assert other.acquire()
        other.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def drain(lock):
    """Everything that was sent to it so far."""
    found = []
    while (message := lock.receive(0)) is not None:
        found.append(message)
    return found


def test_what_is_sent_arrives_with_whoever_holds_it(name):
    assert not locks.send(name, {"to": "nobody"})
    lock = Lock(name)
    lock.acquire()
    for number in range(3):
        assert locks.send(name, {"number": number})
    assert [one["number"] for one in drain(lock)] == [0, 1, 2]
    lock.release()
    assert lock.receive(0) is None


def test_a_full_inbox_blocks_nobody(name):
    lock = Lock(name)
    lock.acquire()
    began = time.monotonic()
    sent = [locks.send(name, {"text": "x" * 1000}) for _ in range(2000)]
    assert not all(sent)
    assert time.monotonic() - began < 2
    assert len(drain(lock)) == sum(sent)
    lock.release()


def test_garbage_in_an_inbox_is_no_message(name):
    lock = Lock(name)
    lock.acquire()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for data in (b"no json", b"[1]", b'{"a": 1}'):
            sender.sendto(data, (locks.PREFIX + name).encode())
    assert [lock.receive(0) for _ in range(3)] == [None, None, {"a": 1}]
    lock.release()


def test_once_let_go_of_it_stays_free(name):
    """A thread that was about to take it must not, after everything was closed."""
    lock = Lock(name)
    lock.release()
    assert not lock.acquire()
    assert Lock(name).acquire()


def test_long_names_that_begin_alike_are_locks_of_their_own(name):
    first, second = (Lock(name + "x" * 200 + end) for end in "ab")
    assert first.acquire()
    assert second.acquire()
    first.release()
    second.release()
