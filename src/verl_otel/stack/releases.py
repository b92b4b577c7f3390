"""Which programs there are, which versions take our configurations, and where their publishers keep releases.

No checksum stands here: each release's own file of checksums is fetched beside it and says what the archive must be.
"""

import platform
from dataclasses import dataclass
from typing import Final

from verl_otel.stack import StackError

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Release:
    """One program.

    `takes`: the oldest version that our configuration is for, and the first that it is no longer for. `archive`,
    `checksums`: URLs with {version} and {arch}; `binary`: its path below the archive's root.
    """

    name: str
    version: str
    takes: tuple[str, str | None]
    commands: tuple[str, ...]
    archive: str
    checksums: str
    binary: str

    def urls(self, architecture: str | None = None) -> tuple[str, str]:
        """(of the archive, of its publisher's checksums), for this machine unless told.

        Raises `StackError` for an architecture without releases.
        """
        arch = architecture or this_architecture()
        return self.archive.format(version=self.version, arch=arch), self.checksums.format(
            version=self.version, arch=arch
        )


_COLLECTOR: Final = (
    "https://github.com/open-telemetry/opentelemetry-collector-releases/releases/download/v{version}/"
    "otelcol-contrib_{version}_linux_{arch}.tar.gz"
)
_PROMETHEUS: Final = "https://github.com/prometheus/prometheus/releases/download/v{version}"
_TEMPO: Final = "https://github.com/grafana/tempo/releases/download/v{version}"
# A build's own address: the one by version alone has been seen to change its bytes.
_GRAFANA: Final = "https://dl.grafana.com/grafana/release/{version}/grafana_{version}_34846740809_linux_{arch}.tar.gz"
RELEASES: Final = {
    one.name: one
    for one in (
        Release(
            "prometheus",
            "3.15.0",
            ("3.0.0", None),
            ("prometheus",),
            _PROMETHEUS + "/prometheus-{version}.linux-{arch}.tar.gz",
            _PROMETHEUS + "/sha256sums.txt",
            "prometheus",
        ),
        Release(
            "tempo",
            "2.10.8",
            ("2.7.0", "3.0.0"),
            ("tempo",),
            _TEMPO + "/tempo_{version}_linux_{arch}.tar.gz",
            _TEMPO + "/SHA256SUMS",
            "tempo",
        ),
        Release("grafana", "13.2.2", ("11.6.0", None), ("grafana",), _GRAFANA, _GRAFANA + ".sha256", "bin/grafana"),
        Release(
            "collector",
            "0.161.0",
            ("0.161.0", None),
            ("otelcol-contrib", "otelcol-verl"),
            _COLLECTOR,
            _COLLECTOR + ".sha256",
            "otelcol-contrib",
        ),
    )
}
"""By name, in the order in which they start: a store before what writes to it."""


def this_architecture() -> str:
    """As publishers name it. Raises `StackError` where they have no releases."""
    if platform.system() != "Linux" or (arch := _ARCHITECTURES.get(platform.machine())) is None:
        raise StackError(
            f"there are no releases for {platform.system()} on {platform.machine()}: use compose.yaml, or name "
            "programs of your own with --collector, --prometheus, --tempo and --grafana"
        )
    return arch
