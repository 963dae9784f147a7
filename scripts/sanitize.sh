#!/usr/bin/env bash
# Runs the library's tests under AddressSanitizer (use after free, double free, out of bounds) or ThreadSanitizer (data
# races). docs/checks.md has the last results.
# usage: scripts/sanitize.sh address|thread [TEST...]     without names: what is listed below
#        TEST is a test program of the library, or `lib` for its unit tests
#        scripts/sanitize.sh capi [TEST...]               the C programs of the C ABI, over a library with AddressSanitizer's checks
#
# The stable toolchain brings both run-time libraries; RUSTC_BOOTSTRAP=1 lets it take the flag, so no nightly is needed.
# The tests of buffers run a tenth of their repetitions (BUSYHOUR_TEST_DIVISOR changes that).
#
# ThreadSanitizer must see every access, or it reports what a lock ordered that it did not see: with the compiled standard
# library, each value under a `Mutex` that had been waited for. Therefore scripts/std-sources.sh brings the sources, the
# standard library is built with the tests, and no report is left out. Every crate is built for that, so the tests are compiled in a
# package of their own, with only those crates that they name.
#
# What ThreadSanitizer does not follow is a second number of one file (`fcntl` with F_DUPFD). tokio adds its sockets to epoll by
# one number and waits by the other, so what it wrote before is reported as a race with what it reads after (27 reports, all in
# tokio's `ScheduledIo`). So the two tests with tokio's sockets are left out.
#
# Nor does it follow a fence. The library orders its data by acquire and release on the words
# themselves, so that it can. That the fences of the biased lock (a compiler fence on one side, membarrier on the other) and of
# the epochs let nobody in twice is what the loom models show.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/sanitize.sh address|thread|capi [TEST...]" >&2; exit 2; }

# The programs are compiled by the system's compiler, and so the checks in the library report to that one's run-time library.
capi() {
  local host target=$PWD/target/sanitize-address
  host=$(rustc -vV | sed -n 's/^host: //p')
  RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer" \
    cargo rustc --package busyhour-capi --lib --crate-type staticlib --target "$host" --target-dir "$target"
  [ $# -gt 0 ] || set -- stations hostile examples
  BUSYHOUR_TEST_ARCHIVE=$target/$host/debug/libbusyhour_capi.a LDFLAGS=-fsanitize=address \
    cargo test --package busyhour-capi --test abi -- "$@"
}
# The library and its tests, with those of its crates for tests that the given ones name.
lean_package() { # TEST...
  local folder=$PWD/target/sanitize-thread/package
  mkdir -p "$folder"
  ln -sfn "$PWD/crates/busyhour/src" "$PWD/crates/busyhour/tests" "$folder/"
  cp crates/busyhour/README.md Cargo.lock "$folder/"
  python3 - crates/busyhour "$@" >"$folder/Cargo.toml" <<'PYTHON'
import pathlib, re, sys, tomllib
root, tests = pathlib.Path(sys.argv[1]), sys.argv[2:]
crate = tomllib.load(open(root / "Cargo.toml", "rb"))
folders = [root / "src" if test == "lib" else root / "tests" / test for test in tests]
files = [file for folder in folders for file in [folder.with_suffix(".rs"), *folder.rglob("*.rs")] if file.is_file()]
code = "\n".join(line for file in files for line in file.read_text().splitlines() if not line.lstrip().startswith("//"))
def table(name, of):
    print(f"[{name}]")
    for key, value in of.items():
        inline = value if isinstance(value, dict) else {"version": value}
        fields = ", ".join(f"{field} = {str(it).lower() if isinstance(it, bool) else repr(it)}" for field, it in inline.items())
        print(f"{key} = {{ {fields} }}")
print('[package]\nname = "busyhour"\nversion = "0.0.0"\nedition = "2024"\nautoexamples = false\n[workspace]')
print('[lints.rust]\nunexpected_cfgs = "allow"')
print("[features]")
for name, parts in crate["features"].items():
    print(f"{name} = {parts}")
table("dependencies", crate["dependencies"])
linux = next(platform for platform in crate["target"] if "linux" in platform)
table(f"target.'{linux}'.dependencies", crate["target"][linux]["dependencies"])
table("dev-dependencies", {name: it for name, it in crate["dev-dependencies"].items() if re.search(rf"\b{name.replace('-', '_')}(::|!|;)", code)})
PYTHON
  arguments+=(--manifest-path "$folder/Cargo.toml" --no-default-features --features runtime)
}

sanitizer=${1:-}
[ $# -eq 0 ] || shift
if [ "$sanitizer" = capi ]; then capi "$@"; exit; fi
arguments=() left_out=()
export RUSTC_BOOTSTRAP=1 BUSYHOUR_TEST_DIVISOR=${BUSYHOUR_TEST_DIVISOR:-10}
case "$sanitizer" in
  address)
    export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer"
    [ $# -gt 0 ] || arguments+=(--lib --tests)
    # Leaks are not reported: in the tests of misuse a user's hook keeps the service alive that holds the hook.
    export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:detect_stack_use_after_return=1}"
    ;;
  thread)
    export RUSTFLAGS="-Zsanitizer=thread"
    left_out=(--skip futures::tokios_sockets)
    arguments+=(-Zbuild-std)
    # Only this variable lets cargo find sources that are not a component of the toolchain.
    __CARGO_TESTS_ONLY_SRC_ROOT=$(scripts/std-sources.sh)
    export __CARGO_TESTS_ONLY_SRC_ROOT TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=0}"
    # The tests in which threads meet, except bus_short_lives, which makes a hundred thousand topics on one thread.
    [ $# -gt 0 ] || set -- soak pool inline_runner serializer timers timer_async runtime buffer_threads bus bus_threads bus_drops
    ;;
  *) usage ;;
esac
[ "$sanitizer" = thread ] || arguments+=(--package busyhour)
for name; do
  if [ "$name" = lib ]; then arguments+=(--lib); else arguments+=(--test "$name"); fi
done
host=$(rustc -vV | sed -n 's/^host: //p')
[ "$sanitizer" != thread ] || lean_package "$@"
cargo test --no-fail-fast --target "$host" --target-dir "target/sanitize-$sanitizer" "${arguments[@]}" -- "${left_out[@]}"
