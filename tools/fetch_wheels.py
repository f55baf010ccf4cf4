#!/usr/bin/env python3
"""Downloads wheels into a folder, and goes on where an earlier download was stopped.

    fetch_wheels.py FOLDER PYTHON MACHINE NAME==VERSION...

Prints one line per wheel with its size, and how far it is. Wheels come from the index that pip is
set to (PyPI by default). Where that index cannot be read in this way, pip itself downloads them,
with its own progress and from the start.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

PIECE = 1 << 20
TRIES = 5
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
PLATFORMS = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_17", "manylinux2014"]


class Unusable(Exception):
    """The index or its wheel is not what this script can read."""


def index_url() -> str:
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    asked = subprocess.run([*PIP, "config", "get", "global.index-url"], capture_output=True, text=True)
    return asked.stdout.strip() or "https://pypi.org/simple"


def wheel_of(index: str, requirement: str, python: str, machine: str) -> tuple[str, str, str]:
    """File name, address and SHA-256 of the requirement's wheel for that Python and machine."""
    name, version = requirement.split("==")
    ask = urllib.request.Request(
        f"{index.rstrip('/')}/{name}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    with urllib.request.urlopen(ask, timeout=60) as answer:
        files = json.load(answer)["files"]
    tag = "cp" + python.replace(".", "")
    platforms = "|".join(PLATFORMS)
    wanted = re.compile(
        rf"{re.escape(re.sub(r'[-.]', '_', name))}-{re.escape(version)}-"
        rf"({tag}-{tag}|py3-none)-(any|.*({platforms})_{machine}.*)\.whl",
        re.IGNORECASE,
    )
    for file in files:
        if wanted.fullmatch(file["filename"]):
            return file["filename"], urllib.parse.urljoin(ask.full_url, file["url"]), file["hashes"]["sha256"]
    raise Unusable(f"{index} has no wheel of {requirement} for {tag} on {machine}")


class Progress:
    """One rewritten line on a terminal; in a log, one line per tenth."""

    def __init__(self, name: str, done: int, total: int):
        self.name, self.total, self.start, self.first = name, total, time.monotonic(), done
        self.shown = -1
        self.terminal = sys.stderr.isatty()
        size = f"{total / 1e6:.1f} MB" if total < 1e8 else f"{total / 1e6:.0f} MB"
        so_far = f", {done / 1e6:.0f} MB of it are here" if done else ""
        print(f"setup: downloading {name} ({size}{so_far})", file=sys.stderr, flush=True)

    def at(self, done: int) -> None:
        percent = 100 * done // max(1, self.total)
        step = percent if self.terminal else percent // 10
        if step == self.shown:
            return
        self.shown = step
        rate = (done - self.first) / max(1e-3, time.monotonic() - self.start)
        left = (self.total - done) / rate if rate > 0 else 0
        text = f"setup:   {percent:3} %, {rate / 1e6:.1f} MB/s, {left:.0f} s left"
        ends = "\n" if not self.terminal or done == self.total else ""
        print(f"\r\x1b[K{text}" if self.terminal else text, end=ends, file=sys.stderr, flush=True)


def continue_download(url: str, part: Path, name: str) -> None:
    """Appends what `part` lacks."""
    have = part.stat().st_size if part.exists() else 0
    ask = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(ask, timeout=60) as answer, part.open("ab") as out:
        if have and answer.status != 206:  # the server sends all of it
            out.truncate(0)
            have = 0
        progress = Progress(name, have, have + int(answer.headers["Content-Length"]))
        done = have
        while piece := answer.read(PIECE):
            out.write(piece)
            done += len(piece)
            progress.at(done)
        if done != progress.total:
            raise ConnectionError(f"{name} ended after {done} of {progress.total} bytes")


def download(folder: Path, name: str, url: str, sha256: str) -> None:
    wheel, part = folder / name, folder / (name + ".part")
    if wheel.exists():
        return
    for attempt in range(TRIES):
        try:
            continue_download(url, part, name)
            break
        except urllib.error.HTTPError as error:
            if error.code != 416:  # 416: nothing is left to send
                raise
            break
        except OSError as error:
            if attempt == TRIES - 1:
                raise
            print(f"setup: {error}; trying again", file=sys.stderr)
            time.sleep(2**attempt)
    with part.open("rb") as file:
        found = hashlib.sha256()
        while piece := file.read(PIECE):
            found.update(piece)
    if found.hexdigest() != sha256:
        part.unlink()
        raise Unusable(f"{name} has the SHA-256 {found.hexdigest()}, expected {sha256}; its download is removed")
    part.rename(wheel)


def download_with_pip(folder: Path, requirement: str, python: str, machine: str) -> int:
    platforms = [word for platform in PLATFORMS for word in ("--platform", f"{platform}_{machine}")]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", python, *platforms, "--dest", str(folder)]
    return subprocess.run([*PIP, "download", *options, requirement], stdout=sys.stderr).returncode


def main() -> int:
    folder, python, machine, *requirements = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    index = index_url()
    for requirement in requirements:
        try:
            download(Path(folder), *wheel_of(index, requirement, python, machine))
        except (Unusable, OSError, ValueError, KeyError) as error:
            print(f"setup: {error}; pip downloads {requirement}", file=sys.stderr, flush=True)
            if code := download_with_pip(Path(folder), requirement, python, machine):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
