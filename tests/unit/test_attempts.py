"""Attempts of one run, by the file beside its checkpoints."""

import pytest

from verl_otel.telemetry import attempts
from verl_otel.telemetry.attempts import Attempt


def test_the_next_attempt_follows_the_last(tmp_path):
    attempts.write(tmp_path, Attempt("r1", 1))
    assert attempts.follow(tmp_path, None) == Attempt("r1", 2)
    assert attempts.follow(tmp_path, "r1") == Attempt("r1", 2)
    assert attempts.follow(tmp_path, "another") is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"run_id": "x"}', '{"run_id": "x", "attempt": "y"}'])
def test_nothing_readable_is_no_attempt(tmp_path, content):
    (tmp_path / attempts.FILE).write_text(content)
    assert attempts.read(tmp_path) is None
    assert attempts.follow(tmp_path, None) is None


def test_no_folder_is_no_attempt_and_an_equal_one_is_not_written_again(tmp_path):
    assert attempts.read(tmp_path / "none") is None
    attempts.write(tmp_path, Attempt("r", 1))
    before = (tmp_path / attempts.FILE).stat().st_mtime_ns
    attempts.write(tmp_path, Attempt("r", 1))
    assert (tmp_path / attempts.FILE).stat().st_mtime_ns == before
    assert [one.name for one in tmp_path.iterdir()] == [attempts.FILE]
