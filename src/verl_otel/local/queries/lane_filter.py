"""The lane filter: words and `key:value` terms, all of which must hold, as the page has it.

    role:actor rank:0-7,12 host:node3 kind:replica replica:2 idle:>50% gap:>2 errors:>0 every:8 -role:ref

`-` in front turns a term round; a word without a key is looked for in the lane's name and its host.
"""

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from verl_otel.local.queries.lanes import Lane
from verl_otel.local.queries.reading import ParameterError

Test = Callable[[Lane], bool]

_KEYS: Final = ("role", "rank", "host", "kind", "replica", "idle", "gap", "errors", "every")
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "": operator.ge,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


def chosen(found: Iterable[Lane], text: str) -> list[Lane]:
    """Those that the filter leaves, in their order. Raises `ParameterError`."""
    every, tests = 1, []
    for word in text.split():
        term = word[1:] if len(word) > 1 and word.startswith("-") else word
        if term.startswith("every:"):
            every = _every(term)
        else:
            tests.append((_test(term), term == word))
    left = [one for one in found if all(test(one) is wanted for test, wanted in tests)]
    return left[::every]


def _every(term: str) -> int:
    if not re.fullmatch(r"every:[1-9]\d*", term):
        raise ParameterError(f"{term!r} wants a whole number above 0, such as every:8")
    return int(term.partition(":")[2])


def _test(term: str) -> Test:
    key, colon, value = term.partition(":")
    if not colon:
        return lambda one: _includes(one.lane, term) or _includes(one.host, term)
    key = key.lower()
    if key in ("role", "host", "kind"):
        return _words(key, [option for option in value.lower().split(",") if option])
    if key in ("rank", "replica"):
        ranges = [_range(term, option) for option in value.split(",")]
        return lambda one: _within(getattr(one, key), ranges)
    if key in ("idle", "gap", "errors"):
        return _comparison("gap_s" if key == "gap" else key, term, value)
    raise ParameterError(f"no lane has a {key!r}: a filter may name {', '.join(_KEYS)}")


def _words(key: str, options: list[str]) -> Test:
    if key == "kind":
        return lambda one: one.kind in options
    return lambda one: any(_includes(getattr(one, key), option) for option in options)


def _includes(text: str | None, part: str) -> bool:
    return text is not None and part.lower() in text.lower()


def _range(term: str, option: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", option)
    if found is None:
        raise ParameterError(f"{term!r} is no range of numbers: write it as rank:0-7 or rank:3")
    return int(found[1]), int(found[2] or found[1])


def _within(value: int | None, ranges: list[tuple[int, int]]) -> bool:
    return value is not None and any(low <= value <= high for low, high in ranges)


def _comparison(name: str, term: str, value: str) -> Test:
    found = re.fullmatch(r"([<>]=?|=)?(\d+(?:\.\d+)?)(%)?", value)
    if found is None:
        raise ParameterError(f"{term!r} is no comparison: write it as idle:>50% or errors:>0")
    compare, bound = _SIGNS[found[1] or ""], float(found[2]) / (100 if found[3] else 1)

    def test(one: Lane) -> bool:
        actual = getattr(one, name)
        return actual is not None and compare(actual, bound)

    return test
