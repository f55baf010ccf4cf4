#!/bin/sh
# graft_fuzz's watchdog ends a program that stands still, and keeps its text and every thread's stack.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "$1"
  cat -- *.txt 2>/dev/null || true
  exit 1
}

code=0
"$1" --programs 1 --seed 7 --limit 2 --hang > output.txt || code=$?
[ "$code" = 3 ] || fail "graft_fuzz ended with $code, not with 3"
grep -q "FAILED seed 7 .*hung for 2 s.*graft_fuzz-hung-7.txt" output.txt || fail "the driver does not name the file"
grep -q "  return " graft_fuzz-hung-7.txt || fail "the program is not in the file"
threads=$(grep -c '^thread ' graft_fuzz-hung-7.txt)
[ "$threads" -ge 2 ] || fail "$threads threads, where two stand still"
grep -q wait_for_ever graft_fuzz-hung-7.txt || fail "no stack names the function that stands still"
! grep -q 'does not answer' graft_fuzz-hung-7.txt || fail "a thread gave no stack"
