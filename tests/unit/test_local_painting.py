"""Painting spans into cells: the same whatever is kept in memory at once, and as one counts by hand."""

import random

import numpy as np
import pytest

from verl_otel.local.queries import painting
from verl_otel.local.queries.painting import Spans, paint

ERROR, PIXEL, ROWS, WIDTH = 2, 10, 7, 40


def spans(told):
    """Out of (row, state, start, end, weighs, failed)."""
    rows, states, starts, ends, weigh, errors = (np.array(column) for column in zip(*told, strict=True))
    return Spans(rows, states, starts, ends, weigh, errors)


def crowd(seed, count=400):
    chance = random.Random(seed)
    told = []
    for _ in range(count):
        start = chance.randrange(WIDTH * PIXEL)
        end = min(WIDTH * PIXEL, start + chance.choice([-5, 0, 1, 7, 30, 399]))
        told.append(
            (chance.randrange(ROWS), chance.randint(3, 9), start, end, chance.random() < 0.8, chance.random() < 0.01)
        )
    return told


def by_hand(told):
    """Cell by cell, span by span."""
    matrix, most = np.zeros((ROWS, WIDTH), np.uint8), 0
    for row in range(ROWS):
        for column in range(WIDTH):
            low, high = column * PIXEL, (column + 1) * PIXEL
            here = [one for one in told if one[0] == row and one[2] < high and max(one[3], one[2] + 1) > low]
            if any(one[5] for one in here):
                matrix[row, column] = ERROR
            elif here:
                time = {one[1]: 0 for one in here}
                for _, state, start, end, weighs, _ in here:
                    time[state] += max(0, min(end, high) - max(start, low)) if weighs else 0
                matrix[row, column] = max(time, key=lambda state: (min(time[state], PIXEL), state))
            most = max(most, len(here))
    return matrix, most


@pytest.mark.parametrize("at_once", [1, 500, 1 << 21])
@pytest.mark.parametrize("seed", [1, 2])
def test_cells_are_as_counted_by_hand(monkeypatch, seed, at_once):
    monkeypatch.setattr(painting, "_MOST_SUMS", at_once)
    told = crowd(seed)
    found, most = paint(spans(told), ROWS, WIDTH, PIXEL, ERROR)
    wanted, wanted_most = by_hand(told)
    assert found.tolist() == wanted.tolist()
    assert most == wanted_most


def test_rows_without_spans_are_empty():
    found, most = paint(spans([(2, 5, 0, 15, True, False)]), 4, 3, PIXEL, ERROR)
    assert found.tolist() == [[0] * 3, [0] * 3, [5, 5, 0], [0] * 3]
    assert most == 1
