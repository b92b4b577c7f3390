"""What a request asks for by its query, read by type; what makes no sense is said in one line."""

import math
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import QueryParams

from verl_otel.local.queries.reading import ParameterError

_MOST_WHOLE: Final = (1 << 31) - 1
_MOST_TIME: Final = 9e12
"""ms since the epoch that still fit in ns."""
_WORDS: Final = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_MOST_TEXT: Final = 1000


class Parameters:
    """Of one request. Every method raises `ParameterError`; an empty value is an absent one."""

    def __init__(self, query: QueryParams) -> None:
        self._query = query

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        found = self._query.get(name) or default
        if len(found) > _MOST_TEXT:
            raise ParameterError(f"{name} has more than {_MOST_TEXT} characters")
        return found

    def texts(self, name: str) -> Sequence[str]:
        """All values of a name that may be given again and again, each once."""
        return list(dict.fromkeys(self._query.getlist(name)))

    def whole(self, name: str) -> int | None:
        """A whole number, or nothing."""
        found = self._read(name)
        if found is not None and (not found.is_integer() or abs(found) > _MOST_WHOLE):
            raise self._wrong(name, "it must be a whole number")
        return None if found is None else int(found)

    def count(self, name: str, default: int) -> int:
        """A whole number, with a default."""
        found = self.whole(name)
        return default if found is None else found

    def number(self, name: str) -> float | None:
        """A number, such as ms since the epoch, or nothing."""
        found = self._read(name)
        if found is not None and not abs(found) <= _MOST_TIME:
            raise self._wrong(name, "it must be a number")
        return found

    def flag(self, name: str) -> bool | None:
        """true or false, on or off, 1 or 0, or nothing."""
        text = self._query.get(name)
        if not text:
            return None
        if text.lower() not in _WORDS:
            raise self._wrong(name, "it may be true or false")
        return _WORDS[text.lower()]

    def _read(self, name: str) -> float | None:
        """NaN of what is no number."""
        if not (text := self._query.get(name)):
            return None
        try:
            return float(text)
        except ValueError:
            return math.nan

    def _wrong(self, name: str, rule: str) -> ParameterError:
        return ParameterError(f"{name} is {self._query[name][:40]!r}: {rule}")
