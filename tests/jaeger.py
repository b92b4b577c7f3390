"""The real Jaeger 2, built from Go's modules, with its traces on disk: in the place of Tempo, which can't be had."""

import contextlib
import os
import subprocess

import requests
import yaml

from programs import build_jaeger, built, free_address, wait_until_ready


class Jaeger:
    """Start and stop it as often as you like. What it stores it gives to `copy`, too, an OTLP endpoint over HTTP."""

    def __init__(self, folder, copy):
        self.folder, self.otlp, self.http = folder, free_address(), free_address()
        self._process = None
        folder.mkdir()
        (folder / "jaeger.yaml").write_text(yaml.safe_dump(self._configuration(copy)))

    def _configuration(self, copy):
        folders = {"keys": str(self.folder / "keys"), "values": str(self.folder / "values")}
        at_once = {"sending_queue": {"enabled": False}, "retry_on_failure": {"enabled": False}}
        return {
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter", "otlphttp"]}},
            },
            "extensions": {
                "jaeger_storage": {
                    "backends": {"disk": {"badger": {"directories": folders, "ephemeral": False, "consistency": True}}}
                },
                "jaeger_query": {
                    "storage": {"traces": "disk"},
                    "http": {"endpoint": self.http},
                    "grpc": {"endpoint": free_address()},
                },
            },
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": self.otlp, "max_recv_msg_size_mib": 32}}}},
            "exporters": {
                "jaeger_storage_exporter": {"trace_storage": "disk", "queue": {"enabled": False}},
                "otlphttp": {"endpoint": copy, **at_once},
            },
        }

    def start(self):
        log = self.folder / "jaeger.log"
        command = [str(built("jaeger", build_jaeger)), f"--config={self.folder / 'jaeger.yaml'}"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=os.environ, stdout=output, stderr=subprocess.STDOUT
            )
        wait_until_ready(f"http://{self.http}/api/services", self._process, log)

    def stop(self):
        self._process.terminate()
        self._process.wait(30)

    @contextlib.contextmanager
    def running(self):
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def trace(self, trace_id):
        """Its spans as its API has them, {} by id; none if it isn't there."""
        found = requests.get(f"http://{self.http}/api/traces/{trace_id}", timeout=20)
        if found.status_code == 404:
            return {}
        assert found.status_code == 200, found.text
        return {one["spanID"]: one for one in found.json()["data"][0]["spans"]}
