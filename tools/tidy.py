#!/usr/bin/env python3
"""Runs clang-tidy's checks (.clang-tidy) over the library, the laboratory and the command.

    tidy.py [PART...]

With PARTs, only over units whose path contains one of them: tidy.py graft_middle. Units are those of
the unity build, configured without precompiled headers in build-tidy/; nothing is compiled. Exits
with 1 when a check has something to say.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-tidy"
JOBS = 2  # each needs a gigabyte


def configure():
    command = ["cmake", "--preset", "release", "-B", str(BUILD), "-D", "GRAFT_PCH=OFF"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tidy: {' '.join(command)} failed:\n{done.stderr}")


def openmp():
    """A folder with an omp.h for clang: GCC's is not for it, and it has none of its own."""
    folder = BUILD / "openmp"
    folder.mkdir(exist_ok=True)
    functions = ["int omp_get_max_threads()", "int omp_get_num_threads()", "int omp_get_thread_num()",
                 "int omp_in_parallel()", "void omp_set_num_threads(int)"]
    (folder / "omp.h").write_text("".join(f'extern "C" {f};\n' for f in functions))
    return folder


def main():
    tidy = shutil.which("clang-tidy-19")
    if tidy is None:
        sys.exit("tidy: clang-tidy-19 was not found (on Debian: sudo apt-get install clang-tidy-19)")
    configure()
    units = sorted(BUILD.glob("CMakeFiles/*.dir/Unity/*.cxx"))
    units = [u for u in units if len(sys.argv) == 1 or any(part in str(u) for part in sys.argv[1:])]
    if not units:
        sys.exit(f"tidy: no unit's path contains {' or '.join(sys.argv[1:])}")
    command = [tidy, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", "-p", str(BUILD)]
    command += [f"--extra-arg=-isystem{openmp()}"]

    def check(unit):
        return unit, subprocess.run([*command, str(unit)], capture_output=True, text=True)

    seen = set()
    with ThreadPoolExecutor(JOBS) as pool:
        for count, (unit, done) in enumerate(pool.map(check, units), 1):
            name = f"{unit.parent.parent.name.removesuffix('.dir')}/{unit.stem}"
            print(f"[{count}/{len(units)}] {name}", file=sys.stderr, flush=True)
            if done.returncode != 0 and " error: " not in done.stdout:
                sys.exit(f"tidy: clang-tidy failed on {name}:\n{done.stderr.strip()}")
            for line in done.stdout.splitlines():
                where = re.match(r"(/\S+?):\d+:\d+: (warning|error): ", line)
                # A system header's warning, about what it makes of a type of ours, is not ours.
                if where and line not in seen and Path(where[1]).is_relative_to(ROOT):
                    seen.add(line)
                    print(os.path.relpath(line, ROOT))
    print(f"tidy: {len(seen)} findings in {len(units)} units", file=sys.stderr)
    sys.exit(1 if seen else 0)


if __name__ == "__main__":
    main()
