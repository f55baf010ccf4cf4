#!/usr/bin/env python3
"""Sums what a build folder's .ninja_log says: for the demo, for each target, for everything.

    build_time.py [FOLDER]

A job's time is its wall time. Where each job has a core of its own, that is about its CPU time.
What ccache answered was not compiled: such jobs are counted, and the sums are too small by them.
For true figures build from nothing without it: make clean && CCACHE_DISABLE=1 make build
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

DEMO = "graft_cli"  # what `make demo` builds
CACHED_BELOW = 0.3  # seconds; no unit compiles in less


def logged(folder: Path) -> dict[str, float]:
    """Seconds that each output took when it was last made."""
    seconds = {}
    jobs = set()
    for line in reversed((folder / ".ninja_log").read_text(encoding="utf-8").splitlines()[1:]):
        start, end, _, output, command = line.split("\t")
        job = (start, end, command)  # of several outputs, one is counted
        if output not in seconds:
            seconds[output] = 0.0 if job in jobs else (int(end) - int(start)) / 1000
            jobs.add(job)
    return seconds


def made_by(folder: Path, *tool: str) -> set[str]:
    listed = subprocess.run(["ninja", "-C", str(folder), *tool], check=True, capture_output=True, text=True)
    return {re.split(r": ", line)[0] for line in listed.stdout.splitlines()}


def target_of(output: str) -> str:
    match = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    return match[1] if match else "linking"


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    seconds = logged(folder)
    known = made_by(folder, "-t", "targets", "all")
    demo = made_by(folder, "-t", "inputs", DEMO)
    seconds = {output: time for output, time in seconds.items() if output in known or output in demo}

    targets: dict[str, float] = defaultdict(float)
    for output, time in seconds.items():
        targets[target_of(output)] += time
    for target, time in sorted(targets.items(), key=lambda item: -item[1]):
        print(f"{time:8.1f} s  {target}")
    print(f"{sum(time for output, time in seconds.items() if output in demo):8.1f} s  for the demo ({DEMO})")
    print(f"{sum(seconds.values()):8.1f} s  for everything that is built")

    compiled = [output for output in seconds if output.endswith((".o", ".gch"))]
    cached = [output for output in compiled if seconds[output] < CACHED_BELOW]
    print(f"{len(compiled)} units compiled; {len(cached)} of them came from ccache and count as nothing")
    if cached:
        print("for true figures: make clean && CCACHE_DISABLE=1 make build build-time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
