"""Where only the wheel is installed and no network is: serves a folder, asks for all of the page, sends a request.

usage: wheel_program.py FOLDER    prints what it found as JSON
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import otlp_made
from verl_otel.local.api import QUESTIONS

_GET, _SET, _UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def bring_loopback_up():
    """In a new network namespace it is down; elsewhere it is up, or not ours to change."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, _GET, struct.pack("16sh", b"lo", 0)))[1]
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET, struct.pack("16sh", b"lo", flags | _UP))


def ask(url, data=None):
    """(status, body)."""
    headers = {"Content-Type": "application/x-protobuf"} if data else {}
    try:
        with OPENER.open(urllib.request.Request(url, data, headers), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def reaches_out():
    """Whether there is a way to anything but this machine: an address is enough, nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, contextlib.suppress(OSError):
        one.connect(("192.0.2.1", 9))
        return True
    return False


def main():
    bring_loopback_up()
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        found = {"reaches_out": reaches_out(), **served(sys.argv[1], f"http://127.0.0.1:{proxy.getsockname()[1]}")}
        proxy.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            found["asked_of_the_proxy"] = proxy.accept()[0].recv(1000).decode(errors="replace")
    print(json.dumps(found))


def served(folder, proxy):
    proxies = {name: proxy for one in ("http", "https", "all") for name in (f"{one}_proxy", f"{one}_proxy".upper())}
    environment = {**os.environ, **proxies, "NO_PROXY": "", "no_proxy": ""}
    up = [str(Path(sys.executable).with_name("verl-otel")), "up", "--json", "--folder", folder]
    begin = time.monotonic()
    with subprocess.Popen(up, env=environment, cwd=Path(folder).parent, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = json.loads(process.stdout.readline())["url"]
            ready = time.monotonic() - begin
            return {"ready": ready, **asked(url), "code": ended(process)}
        finally:
            process.kill()


def asked(url):
    status, index = ask(f"{url}/")
    names = re.findall(r'(?:src|href)="([^"]+)"', index.decode())
    found = {"/": status, **{name: ask(f"{url}/{name}")[0] for name in names}}
    found["/api/runs"], before = ask(f"{url}/api/runs")
    sent = ask(f"{url}/v1/traces", otlp_made.traces("wheel").SerializeToString())[0]
    runs, deadline = [], time.monotonic() + 20
    while not runs and time.monotonic() < deadline:
        time.sleep(0.1)
        runs = [one["id"] for one in json.loads(ask(f"{url}/api/runs")[1])["runs"]]
    # A part of DuckDB that is not in its wheel would be fetched by the first question that needs it.
    for path in (path for path in QUESTIONS if "{" not in path):
        found[f"/api/runs/wheel/{path}"] = ask(f"{url}/api/runs/wheel/{path}?step=1&key=a/b".replace("/?", "?"))[0]
    return {"answers": found, "before": json.loads(before)["runs"], "sent": sent, "runs": runs}


def ended(process):
    process.terminate()
    return process.wait(20)


if __name__ == "__main__":
    main()
