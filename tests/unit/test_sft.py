"""Steps told by the batches that an SFT trainer asks for."""

import copy

import pytest

from verl_otel.instrumentors import sft
from verl_otel.telemetry import failure, steps


class Loader:
    """As verl's: batches by iteration, a length, and attributes of its own."""

    def __init__(self, *batches, error=None):
        self.batches, self.error, self.sampler = batches, error, "theirs"

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        yield from self.batches
        if self.error is not None:
            raise self.error


@pytest.fixture
def counted(recorded):
    found = sft._Steps(resumed=10)
    steps.trainer_started(lambda: found.number, by_log=False, lane="trainer/1")
    return found


def test_each_batch_is_a_step_with_a_phase_for_its_data_over_epochs(recorded, counted):
    loader = Loader("a", "b")
    observed = sft.ObservedBatches(loader, counted)
    assert [*observed, *observed] == ["a", "b", "a", "b"]
    assert (len(observed), observed.sampler) == (2, "theirs")
    counted.end()
    roots = [span for span in recorded.exporter.get_finished_spans() if span.name == "verl.step"]
    assert [root.attributes["verl.step"] for root in roots] == [11, 12, 13, 14, 15]
    assert [bool(root.attributes.get("verl.truncated")) for root in roots] == [False] * 4 + [True]  # asked for no more
    assert {span.attributes["verl.lane"] for span in recorded.exporter.get_finished_spans()} == {"trainer/1"}


def test_a_data_loader_that_raises_fails_its_phase_and_raises_the_same(recorded, counted):
    error = OSError("disk")
    with pytest.raises(OSError, match="disk") as caught:
        list(sft.ObservedBatches(Loader("a", error=error), counted))
    assert caught.value is error
    assert failure.first().message == "disk"


def test_validation_is_a_phase(recorded, counted):
    assert list(sft.ObservedValidation(Loader("v"))) == ["v"]
    assert recorded.names == ["verl.phase.testing"]


def test_a_loader_can_be_copied(recorded, counted):
    assert copy.copy(sft.ObservedValidation(Loader("v"))).sampler == "theirs"
