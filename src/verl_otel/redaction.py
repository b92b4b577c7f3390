"""What must not be shown: names of variables whose values are secret, and the parts of a URL that may be."""

import re
from typing import Final

SECRET_NAME: Final = re.compile(r"HEADERS$|CREDENTIAL|TOKEN|PASSWORD|SECRET")
"""OTEL_EXPORTER_OTLP_HEADERS and the like; a key or certificate is named by its file, which is no secret."""

_USERINFO: Final = re.compile(r"(?<=//)[^/@\s]+@|[^\s/@:]+:[^\s/@]+@")
_QUERY: Final = re.compile(r"(?<=\?)[^\s#]+")


def without_secrets(text: str) -> str:
    """A text without the user, password and query of any URL or address in it."""
    return _QUERY.sub("***", _USERINFO.sub("***@", text))
