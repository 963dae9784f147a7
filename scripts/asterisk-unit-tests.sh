#!/usr/bin/env bash
# usage: scripts/asterisk-unit-tests.sh ASTERISK [TEST...]
#
# Compiles Asterisk's own unit tests of its scheduler, heap, events, task processors and task pools with compat/asterisk in place of
# Asterisk, and runs them. ASTERISK is a folder with Asterisk's source, of which only tests/ is read. With TESTs only those of these
# names. LIBRARY: the folder of libbusyhour.so; by default it is built. Exit code 0: every test passed. It takes a minute and a half.
set -euo pipefail
cd "$(dirname "$0")/.."

asterisk=${1:-}
[ -f "$asterisk/tests/test_sched.c" ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
tests=$asterisk/tests
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

library=${LIBRARY:-}
if [ -z "$library" ]; then
  library=$scratch/lib
  cargo rustc --quiet --package busyhour-capi --lib --crate-type staticlib
  scripts/link-capi.sh target/debug/libbusyhour_capi.a "$library"
fi

# The headers that the tests ask for; all that they need is in the one that they include first.
mkdir "$scratch/asterisk"
for name in astobj2 cli event heap lock logger module sched serializer taskpool taskprocessor test threadpool utils; do
  : >"$scratch/asterisk/$name.h"
done

failed=0
for test in sched heap event taskprocessor taskpool; do
  # The tests are not ours: their warnings say nothing here.
  cc -std=gnu11 -g1 -O1 -w -DTEST_FRAMEWORK -pthread -Icompat/asterisk/unit-tests -I"$scratch" -Icrates/busyhour-capi/include \
    -o "$scratch/$test" "$tests/test_$test.c" compat/asterisk/*.c -L"$library" -Wl,-rpath,"$(realpath "$library")" -lbusyhour
  "$scratch/$test" "$@" 2>"$scratch/said" || { failed=1; tail -5 "$scratch/said"; }
done
exit $failed
