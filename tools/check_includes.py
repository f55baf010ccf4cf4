#!/usr/bin/env python3
"""Checks that includes point down the flow, and that no file of code and no comment's line is too long.

Prints one line per finding, as path:line: what; exits with 1 when there is any.
"""

import re
import subprocess
import sys
from pathlib import Path

# What each folder may include of the checkout, beside itself. A file belongs to the longest folder
# that it lies in. ALL stands for every folder of the table but src/codegen/llvm.
ALL = None
COMPILER = ["src/tensor", "src/record", "src/ops", "src/ir", "src/passes", "src/codegen"]
COMPILER += ["src/codegen/source", "include/graft"]
RUNTIME = [f"src/runtime/{room}" for room in ("process", "memory", "communication", "key", "random", "plan", "store", "proof", "region", "family")]
SYSTEMS = ["numbers", "sparse", "states", "checkpoint", "compression", "sequence", "processes"]
SUBJECTS = ["workloads", "lab", "formats", "include/graft", "include/graft/systems"]  # of the command
COMMANDS = [f"cli/{room}" for room in ("measure", "inspect", "results", "demo")]
COMMANDS += ["quantizer/command", "quantizer/experiment"]
COMMANDS += [f"experiments/{system}" for system in ("llama", "components", "language_model", "processes", "systems")]
MAY_INCLUDE = {
    "include/graft": [],
    "include/graft/systems": ["include/graft"],
    "src": ["include/graft"],
    "src/tensor": [],
    "src/record": ["src/tensor", "include/graft"],
    "src/ir": ["src/tensor", "include/graft"],
    "src/ops": ["src/record", "src/ir", "src/tensor", "include/graft"],
    "src/passes": ["src/ir", "src/tensor", "include/graft"],
    "src/codegen": ["src/ir", "src/tensor", "include/graft"],
    "src/codegen/llvm": ["src/codegen", "src/ir", "src/tensor", "include/graft"],
    "src/codegen/source": ["src/codegen", "src/ir", "src/tensor", "include/graft"],
    "src/runtime/memory": ["include/graft"],
    "src/runtime/process": ["src/runtime/memory", "src/ir", "src/tensor", "include/graft"],
    "src/runtime/key": ["src/record", "src/tensor", "include/graft"],
    "src/runtime/communication": ["include/graft"],
    "src/runtime/random": [],
    "src/runtime/plan": [*COMPILER, "src/runtime/random", "src/runtime/process", "src/runtime/memory"],
    "src/runtime/store": [*COMPILER, "src/runtime/plan", "src/runtime/key", "src/runtime/process", "src/runtime/proof"],
    "src/runtime/proof": [*COMPILER, "src/runtime/plan", "src/runtime/key", "src/runtime/process", "src/runtime/memory", "src/runtime/communication"],
    "src/runtime/family": [*COMPILER, "src/runtime/plan", "src/runtime/key"],
    "src/runtime/region": ["src/ir", "src/tensor", "src/record", "src/runtime/plan", "src/runtime/proof", "include/graft", "src/runtime/communication"],
    "src/runtime/function": [*COMPILER, *RUNTIME],
    "src/optim": ["src/record", "include/graft"],
    "src/attention": ["include/graft"],
    "src/sorting": ["src/tensor", "src/runtime/process"],
    "src/linalg": ["src/tensor", "src/runtime/process"],
    **{f"systems/{room}": ["include/graft", "include/graft/systems"] for room in SYSTEMS},
    "formats": [],
    "lab": ["formats"],
    "workloads": ["include/graft", "lab", "formats"],
    "quantizer/model": ["workloads", "lab", "formats", "include/graft"],
    "cli/frame": SUBJECTS,
    "cli/measure": [*SUBJECTS, "cli/frame"],
    "cli/inspect": [*SUBJECTS, "cli/frame", "cli/measure"],
    "cli/results": [*SUBJECTS, "cli/frame"],
    "cli/demo": [*SUBJECTS, "cli/frame", "cli/measure"],
    "quantizer/command": [*SUBJECTS, "quantizer/model", "cli/frame"],
    "quantizer/experiment": [*SUBJECTS, "quantizer/model", "cli/frame"],
    "experiments/frame": [*SUBJECTS, "cli/frame", "cli/measure"],
    "experiments/llama": [*SUBJECTS, "cli/frame", "experiments/frame"],
    "experiments/components": [*SUBJECTS, "cli/frame", "experiments/frame"],
    "experiments/language_model": [*SUBJECTS, "cli/frame", "experiments/frame"],
    "experiments/processes": [*SUBJECTS, "cli/frame", "experiments/frame"],
    "experiments/systems": [*SUBJECTS, "experiments/processes", "cli/frame", "experiments/frame"],
    "cli": [*COMMANDS, "cli/frame", "include/graft"],
    "examples": ["workloads", "include/graft", "include/graft/systems"],
    "tests": ALL,
    "bench": ALL,
}

# Headers from outside that only some folders may include: pattern, folders, and why.
ONLY_IN = [
    (r"llvm(-c)?/", ["src/codegen/llvm"], "LLVM is loaded only when something must be compiled"),
    (
        r"ATen/(?!Version\.h|cpu/Utils\.h)|torch/",
        [folder for folder in MAY_INCLUDE if folder not in ("src/tensor", "src/ir", "src/passes", "src/codegen")],
        "programs, passes and code generation know c10's dtypes, and of ATen only which of its kernels run here",
    ),
    (
        r"torch/(torch|all|extension)\.h$",
        ["workloads", "quantizer", "examples", "tests", "bench", "cli"],
        "it costs 24 s per unit; include the fine ATen headers",
    ),
    (
        r"graft/(?!((graft|workload)\.h$|systems/))",
        [folder for folder in MAY_INCLUDE if folder not in ("workloads", "examples")],
        "users include <graft/graft.h>, or <graft/workload.h> for the laboratory",
    ),
]

# Where an include is looked for, beside the folder of the file that has it.
INCLUDE_ROOTS = ["src", "include", "tests", "."]

MAX_LINES = 600
MAX_COLUMNS = 100  # of comments, which clang-format leaves alone
INCLUDERS = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".def"}
CODE = INCLUDERS | {".py", ".sh", ".cmake"}
COMMENT = re.compile(r"^\s*//")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def files(top: Path) -> list[Path]:
    """The files under version control, and new ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "-C", str(top), "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in map(Path, sorted(set(listed.stdout.splitlines()))) if (top / path).is_file()]


def folder_of(path: Path) -> str | None:
    """The row of the table that a file of the checkout belongs to."""
    for parent in path.parents:
        if parent.as_posix() in MAY_INCLUDE:
            return parent.as_posix()
    return None


def resolve(top: Path, includer: Path, name: str) -> Path | None:
    """The file of the checkout that an include means, or None for one from outside."""
    for root in [includer.parent, *map(Path, INCLUDE_ROOTS)]:
        found = (top / root / name).resolve()
        if found.is_file() and found.is_relative_to(top):
            return found.relative_to(top)
    return None


def check_include(top: Path, path: Path, name: str) -> str | None:
    """What is wrong with the include, or None."""
    folder = folder_of(path)
    if folder is None:
        return None
    for pattern, allowed, why in ONLY_IN:
        if re.match(pattern, name) and folder not in allowed:
            return f"{folder} may not include <{name}>: {why}"
    target = resolve(top, path, name)
    if target is None:
        return None
    to = folder_of(target)
    allowed = MAY_INCLUDE[folder]
    if to is None:
        return f"{folder} may not include {target}: it lies in no folder of the flow"
    if to == folder or (to in allowed if allowed is not ALL else to != "src/codegen/llvm"):
        return None
    return f"{folder} may not include {target}: {to} is not below it (see the table in {Path(__file__).name})"


def check_file(top: Path, path: Path) -> list[str]:
    findings = []
    lines = (top / path).read_text(encoding="utf-8").splitlines()
    if len(lines) > MAX_LINES:
        findings.append(f"{path}:{MAX_LINES + 1}: {len(lines)} lines; at most {MAX_LINES}, what are its two halves called?")
    if path.suffix in INCLUDERS:
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_COLUMNS and COMMENT.search(line):
                findings.append(f"{path}:{number}: a comment of {len(line)} columns; at most {MAX_COLUMNS}")
            match = INCLUDE.match(line)
            finding = match and check_include(top, path, match[1] or match[2])
            if finding:
                findings.append(f"{path}:{number}: {finding}")
    return findings


def main() -> int:
    top = Path(__file__).resolve().parent.parent
    code = [path for path in files(top) if path.suffix in CODE or path.name in ("CMakeLists.txt", "Makefile")]
    findings = [finding for path in code for finding in check_file(top, path)]
    for finding in findings:
        print(finding)
    print(f"check_includes: {len(code)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
