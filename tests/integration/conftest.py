"""A real, local Ray of the tests' own: short paths, few CPUs, ended by its own shutdown."""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from verl_otel.local.store.folder import Folder


@contextmanager
def ray_of_our_own(monkeypatch, **options):
    """`ray.init` in a folder of its own, with what a loopback Ray needs."""
    import ray

    for name, value in {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_DEDUP_LOGS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    folder = Path(tempfile.mkdtemp(prefix="vo-", dir="/tmp"))
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        _temp_dir=str(folder / "r"),
        _node_ip_address="127.0.0.1",
        object_store_memory=100_000_000,
        **options,
    )
    try:
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def observed_ray(monkeypatch, tmp_path):
    """(ray, capture): a Ray whose workers are reached, sending to a receiver here; verl is imported, as in a run."""
    import verl_otel
    from recorder import Recorder

    capture = tmp_path / "capture.otlp"
    with Recorder(capture) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("VERL_OTEL_RUN_ID", "test-run")
        verl_otel.instrument()
        import verl  # noqa: F401

        try:
            with ray_of_our_own(monkeypatch) as ray:
                yield ray, capture
        finally:
            verl_otel.uninstrument()


@pytest.fixture
def quick(monkeypatch):
    """The embedded backend's writer rests for a moment only."""
    monkeypatch.setattr("verl_otel.local.store.writer.PAUSE", 0.02)


@pytest.fixture
def folder(tmp_path):
    """Of an embedded backend."""
    return Folder(tmp_path / "backend")
