"""The journal keeps what it accepted through any end of its process, and says no while it can't keep more."""

import errno
import os

import pytest

from verl_otel.local import journal as module
from verl_otel.local.journal import Journal, JournalFullError, Limits, Position


def bodies(journal, position=None):
    return [one.body for one in journal.read(position or journal.start, 1 << 30)]


def test_what_was_appended_is_read_in_its_order(tmp_path):
    with Journal(tmp_path) as journal:
        for one in (b"first", b"second", b"third"):
            journal.append("metrics", one)
        records = journal.read(journal.start, 1 << 20)
        assert [(one.signal, one.body) for one in records] == [
            ("metrics", b"first"),
            ("metrics", b"second"),
            ("metrics", b"third"),
        ]
        assert bodies(journal, records[0].end) == [b"second", b"third"]
        assert journal.unread == sum(5 + len(one.body) for one in records)


def test_a_batch_is_bounded_but_never_empty(tmp_path):
    with Journal(tmp_path) as journal:
        for number in range(10):
            journal.append("traces", bytes([number]) * 100)
        assert len(journal.read(journal.start, 250)) == 3
        assert len(journal.read(journal.start, 1)) == 1


def test_what_a_killed_process_left_is_read_by_the_next(tmp_path):
    one = Journal(tmp_path)
    one.append("logs", b"kept")
    with Journal(tmp_path) as next_one:
        next_one.append("logs", b"new")
        assert bodies(next_one) == [b"kept", b"new"]


@pytest.mark.parametrize("cut", [1, 4, 5, 7])
def test_a_record_that_a_crash_cut_is_not_there(tmp_path, cut):
    journal = Journal(tmp_path)
    journal.append("logs", b"whole")
    journal.append("logs", b"torn")
    [path] = tmp_path.glob("*.otlp")
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(tmp_path) as next_one:
        next_one.append("logs", b"after")
        assert bodies(next_one) == [b"whole", b"after"]


def test_segments_that_were_taken_are_removed_and_their_numbers_never_come_again(tmp_path):
    with Journal(tmp_path, Limits(segment=300)) as journal:
        for number in range(9):
            journal.append("traces", bytes([number]) * 100)
        numbers = {int(one.stem) for one in tmp_path.glob("*.otlp")}
        assert len(numbers) >= 4
        end = journal.read(journal.start, 1 << 20)[-1].end
        journal.take(end)
        assert {int(one.stem) for one in tmp_path.glob("*.otlp")} == {max(numbers)}
        assert journal.unread == 0
    for one in tmp_path.iterdir():
        one.unlink()
    with Journal(tmp_path):
        assert min(int(one.stem) for one in tmp_path.glob("*.otlp")) > max(numbers)


def test_the_next_process_goes_on_where_the_last_was(tmp_path):
    one = Journal(tmp_path)
    one.append("logs", b"taken")
    one.take(one.read(one.start, 1)[-1].end)
    one.append("logs", b"not yet")
    with Journal(tmp_path) as next_one:
        assert bodies(next_one) == [b"not yet"]


@pytest.mark.parametrize("hint", ["", "what", "1 99999999", "12"])
def test_without_a_word_of_how_far_it_was_taken_it_is_read_from_the_start(tmp_path, hint):
    one = Journal(tmp_path)
    one.append("logs", b"taken")
    one.take(one.read(one.start, 1)[-1].end)
    segment = one.start.segment
    (tmp_path / "taken").write_text(hint.replace("1 9", f"{segment} 9"))
    with Journal(tmp_path) as next_one:
        assert bodies(next_one) == [b"taken"]


def test_a_request_that_is_sent_again_is_there_once_even_after_a_crash(tmp_path):
    one = Journal(tmp_path)
    one.append("logs", b"same")
    one.append("logs", b"same")
    with Journal(tmp_path) as next_one:
        next_one.append("logs", b"same")
        assert bodies(next_one) == [b"same"]


def test_more_than_may_be_unread_is_refused_until_some_was_taken(tmp_path):
    with Journal(tmp_path, Limits(unread=1000)) as journal:
        for number in range(10):
            journal.append("traces", bytes([number]) * 100)
        with pytest.raises(JournalFullError) as refused:
            journal.append("traces", b"x" * 100)
        assert refused.value.wait > 0
        journal.take(journal.read(journal.start, 1 << 20)[-1].end)
        journal.append("traces", b"x" * 100)


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path):
    with Journal(tmp_path, Limits(free=1 << 60)) as journal, pytest.raises(JournalFullError, match="full"):
        journal.append("traces", b"x")


@pytest.mark.parametrize("written", [0, 3, 50])
def test_a_write_that_fails_leaves_nothing_half_written(tmp_path, monkeypatch, written):
    real = os.write

    def failing(file, data):
        if written:
            real(file, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(tmp_path) as journal:
        journal.append("traces", b"before")
        monkeypatch.setattr(module.os, "write", failing)
        with pytest.raises(JournalFullError, match="No space"):
            journal.append("traces", b"x" * 100)
        monkeypatch.undo()
        journal.append("traces", b"after")
        assert bodies(journal) == [b"before", b"after"]


def test_a_new_segment_that_cant_be_made_is_made_later(tmp_path, monkeypatch):
    real = os.open

    def failing(path, *arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(tmp_path, Limits(segment=50)) as journal:
        journal.append("traces", b"a" * 60)
        monkeypatch.setattr(module.os, "open", failing)
        with pytest.raises(JournalFullError):
            journal.append("traces", b"b" * 60)
        monkeypatch.setattr(module.os, "open", real)
        journal.append("traces", b"c" * 60)
        assert bodies(journal) == [b"a" * 60, b"c" * 60]


def test_it_takes_nothing_once_it_is_closed_and_leaves_nothing_that_was_taken(tmp_path):
    journal = Journal(tmp_path)
    journal.append("traces", b"x")
    journal.take(journal.read(journal.start, 1)[-1].end)
    journal.close()
    assert not list(tmp_path.glob("*.otlp"))
    with pytest.raises(JournalFullError):
        journal.append("traces", b"y")
    assert Journal(tmp_path).start > Position(0, 0)
