"""OTLP's attributes as plain values and as JSON."""

import base64
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import orjson

BIGGEST: Final = (1 << 63) - 1
"""Of BIGINT; OTLP's times are unsigned."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,10}")
_PLAIN: Final = frozenset({"string_value", "int_value", "bool_value", "double_value"})


def plain(pairs: Iterable[Any]) -> dict[str, Any]:
    """Values by key; arrays are lists, maps dicts, bytes base64. The last of several with one key counts."""
    found = {}
    for pair in pairs:
        value = pair.value
        # Most are texts and numbers, and asking for one is faster than asking which it is.
        found[pair.key] = value.string_value or value.int_value or value.double_value or value_of(value)
    return found


def value_of(value: Any) -> Any:
    """Of an AnyValue."""
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in _PLAIN else _compound(value, kind)


def _compound(value: Any, kind: str | None) -> Any:
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return plain(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None


def to_json(value: Any) -> str:
    """As JSON; what it has no numbers for are the words NaN, Infinity and -Infinity."""
    encoded = orjson.dumps(value)
    if b"null" in encoded:  # what a number without a word would be
        encoded = orjson.dumps(_worded(value))
    text = encoded.decode()
    return text if "\\u0000" not in text else text.replace("\\u0000", "\\ufffd")


def from_json(text: str) -> dict[str, Any]:
    """What `to_json` made of a dict; the words stay words."""
    found: dict[str, Any] = orjson.loads(text)
    return found


def _worded(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _worded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_worded(one) for one in value]
    return value


def text_or_none(value: Any) -> str | None:
    """A text as it is, a number or bool as one; None for anything else."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    return str(value) if isinstance(value, int | float) else None


def int_or_none(value: Any) -> int | None:
    """A whole number that INTEGER holds; also from a text, as some write ranks."""
    if isinstance(value, str):
        value = int(value) if _WHOLE.fullmatch(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31:
        return value
    return None


def float_or_none(value: Any) -> float | None:
    """A number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def bool_or_none(value: Any) -> bool | None:
    """A bool."""
    return value if isinstance(value, bool) else None


def time_of(nanoseconds: int) -> int:
    """What BIGINT holds of it."""
    return min(nanoseconds, BIGGEST)
