"""Release archives: fetched or taken from a bundle, verified, unpacked whole or not at all."""

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

import requests

from verl_otel.stack import StackError
from verl_otel.stack.releases import Release

CHUNK: Final = 1 << 20
TIMEOUT: Final = (10, 60)
"""Seconds to connect, and between two pieces."""

Progress = Callable[[int, int | None], None]
"""Told how many more bytes are there, and of how many in all where that is known."""


class Source:
    """Where archives come from: their publishers, or, with `mirror`, `<mirror>/<host>/<path>` of the same files."""

    def __init__(self, mirror: str | None = None) -> None:
        self._mirror = mirror.rstrip("/") if mirror else None

    def fetch(self, url: str, into: IO[bytes], progress: Progress) -> None:
        """Write what `url` gives. Raises `StackError`."""
        asked = self._place(url)
        try:
            with requests.get(asked, stream=True, timeout=TIMEOUT) as answer:
                answer.raise_for_status()
                size = answer.headers.get("Content-Length")
                for piece in answer.iter_content(CHUNK):
                    into.write(piece)
                    progress(len(piece), int(size) if size else None)
        except requests.RequestException as error:
            raise StackError(
                f"{asked} can't be fetched ({_short(error)}): check the network and its proxy variables, or make a "
                "bundle on another machine (`verl-otel stack bundle`) and install from that"
            ) from error

    def _place(self, url: str) -> str:
        if self._mirror is None:
            return url
        parts = urlsplit(url)
        return f"{self._mirror}/{parts.netloc}{parts.path}"


class Bundle(Source):
    """A tar file that `bundle` made: `<program>/<file>` for each."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def fetch(self, url: str, into: IO[bytes], progress: Progress) -> None:
        """Write what the bundle has of `url`. Raises `StackError`."""
        name = _member(url)
        with _reading(self._path), tarfile.open(self._path) as bundle:
            try:
                member = bundle.extractfile(name)
            except KeyError:
                raise StackError(
                    f"{self._path} holds no {name}: it was made by another version of verl-otel, or for another machine"
                ) from None
            if member is None:
                raise StackError(f"{self._path}: {name} is no file")
            while piece := member.read(CHUNK):
                into.write(piece)
                progress(len(piece), None)


def install(release: Release, source: Source, folder: Path, progress: Progress) -> Path:
    """Have a release in `folder`/<name>-<version>, and return its binary; nothing is there unless all of it is right.

    Raises `StackError`.
    """
    home = folder / f"{release.name}-{release.version}"
    if (home / release.binary).exists():
        return home / release.binary
    archive, checksums = release.urls()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as work:
            packed, unpacked = Path(work) / "archive", Path(work) / "unpacked"
            fetch_verified(source, archive, checksums, packed, progress)
            _unpack(packed, unpacked, _file_name(archive))
            root = _root(unpacked, release.binary)
            if root is None:
                raise StackError(f"{_file_name(archive)} holds no {release.binary}: nothing was installed")
            shutil.rmtree(home, ignore_errors=True)
            root.replace(home)
    except OSError as error:
        raise StackError(f"{release.name} can't be installed in {folder}: {error.strerror or error}") from error
    return home / release.binary


def bundle(releases: list[Release], source: Source, path: Path, architecture: str, progress: Progress) -> None:
    """Write archives and their publishers' checksums into one tar file, each verified. Raises `StackError`."""
    part = path.with_name(f".{path.name}.part")
    try:
        with tempfile.TemporaryDirectory(prefix=".bundling-", dir=path.parent) as work, tarfile.open(part, "w") as made:
            for release in releases:
                archive, checksums = release.urls(architecture)
                packed = Path(work) / "archive"
                text = fetch_verified(source, archive, checksums, packed, progress)
                made.add(packed, _member(archive))
                (Path(work) / "checksums").write_text(text)
                made.add(Path(work) / "checksums", _member(checksums))
        part.replace(path)
    except OSError as error:
        raise StackError(f"{path} can't be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def fetch_verified(source: Source, archive: str, checksums: str, into: Path, progress: Progress) -> str:
    """Fetch an archive that is what its publisher's checksums say, and return their text. Raises `StackError`."""
    name = _file_name(archive)
    with tempfile.TemporaryFile() as found:
        source.fetch(checksums, found, lambda *_: None)
        found.seek(0)
        text = found.read().decode(errors="replace")
    stated = _stated(text, name)
    if stated is None:
        raise StackError(f"{_file_name(checksums)} says nothing of {name}: nothing was installed")
    with into.open("w+b") as packed:
        source.fetch(archive, packed, progress)
        packed.seek(0)
        digest = hashlib.sha256()
        while piece := packed.read(CHUNK):
            digest.update(piece)
    if digest.hexdigest() != stated:
        raise StackError(
            f"{name} is not what its publisher states (sha256 {digest.hexdigest()[:12]}…, stated {stated[:12]}…): the "
            "download is damaged or not theirs; nothing was installed, try again"
        )
    return text


def _stated(checksums: str, name: str) -> str | None:
    """The sha256 of a file by `sha256sum`'s format, or of the only one where a file of checksums has a lone digest."""
    lines = [line.split() for line in checksums.splitlines() if line.strip()]
    for digest, *names in lines:
        if re.fullmatch(r"[0-9a-fA-F]{64}", digest) and (
            (not names and len(lines) == 1) or (names and names[-1].lstrip("*./") == name)
        ):
            return digest.lower()
    return None


def _unpack(packed: Path, into: Path, name: str) -> None:
    with _reading(Path(name)), tarfile.open(packed) as archive:
        archive.extractall(into, filter="data")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise StackError(f"{path.name} is damaged ({reason}): nothing was installed, fetch it again") from error
    except FileNotFoundError as error:
        raise StackError(f"{path} is not there") from error


def _root(unpacked: Path, binary: str) -> Path | None:
    """The folder that has the binary: archives have one folder at their top, or none."""
    inner = [one for one in unpacked.iterdir() if one.is_dir()] if unpacked.is_dir() else []
    return next((one for one in (unpacked, *inner) if os.access(one / binary, os.X_OK)), None)


def _file_name(url: str) -> str:
    return url.rsplit("/", 1)[1]


def _member(url: str) -> str:
    """A file's name in a bundle; publishers call their checksums alike."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"


def _short(error: Exception) -> str:
    answer = getattr(error, "response", None)
    return f"HTTP {answer.status_code}" if answer is not None else type(error).__name__
