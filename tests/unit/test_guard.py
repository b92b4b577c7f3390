"""The guard: our failures are swallowed, counted and logged once; what is the user's passes."""

import logging

import pytest

from verl_otel.guard import failures, guard


def test_an_exception_of_ours_is_swallowed_counted_and_logged_once(caplog):
    with caplog.at_level(logging.WARNING, "verl_otel"):
        for _ in range(3):
            with guard("somewhere"):
                raise ValueError("ours")
    assert failures.counts() == {"somewhere": 3}
    assert len(caplog.records) == 1
    assert "somewhere" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_the_users_passes(kind):
    with pytest.raises(kind), guard("somewhere"):
        raise kind
    assert failures.counts() == {}
