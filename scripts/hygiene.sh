#!/usr/bin/env bash
# What a user of the crate `busyhour` relies on beyond its tests: the oldest compiler, the oldest dependencies, other platforms,
# the public interface, licences. Before a release all of it, some ten minutes; single steps after a change that they cover.
# usage: scripts/hygiene.sh [STEP...]     all steps in this order unless told
#
#   msrv       compiles the crate with the compiler that its manifest names (`rust-version`): rustup's, or Debian's package
#   minimal    compiles it with the oldest versions of its dependencies that its manifest allows
#   platforms  checks it for other systems, with a standard library made from its sources
#   interface  compares the public items with docs/public-api/busyhour.txt; `interface --accept` writes that file
#   semver     cargo-semver-checks against the newest tag, or before the first one against the interface that was last accepted:
#              whether the version's number says what changed
#   licences   cargo-deny: licences and sources of all dependencies (deny.toml)
#   publish    each crate built from its package, as `cargo publish --dry-run` does (scripts/publish-check.sh --build)
#
# Tools are built into target/tools the first time, which takes some minutes each.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
folder=$PWD/target/hygiene
tools=$PWD/target/tools
# The unstable options of the stable compiler, for the steps that need them.
unstable=(env RUSTC_BOOTSTRAP=1)

main() {
  local steps=("$@") name begin
  [ $# -gt 0 ] || steps=(msrv minimal platforms interface semver licences publish)
  mkdir -p "$folder"
  if [ "${steps[*]}" = "interface --accept" ]; then accept_interface; return; fi
  for name in "${steps[@]}"; do
    case "$name" in
      msrv | minimal | platforms | interface | semver | licences | publish) ;;
      *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
    esac
    begin=$SECONDS
    "$name" || fail "$name: FAILED"
    echo "hygiene: $name: ok in $((SECONDS - begin)) s"
  done
}

msrv() {
  local version compiler
  version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' crates/busyhour/Cargo.toml)
  if rustup run "$version" rustc --version >/dev/null 2>&1; then
    compiler=(env RUSTC="$(rustup which --toolchain "$version" rustc)")
  else
    debian_rust "$version" || return 1
    compiler=(env RUSTC="$folder/rust-$version/usr/bin/rustc"
      LD_LIBRARY_PATH="$folder/rust-$version/usr/lib/x86_64-linux-gnu")
  fi
  # This cargo with that compiler; the library's own code must bring no warning of its age.
  "${compiler[@]}" cargo check --quiet --package busyhour --lib --all-features --target-dir "$folder/msrv" || return 1
  "${compiler[@]}" cargo check --quiet --package busyhour --lib --no-default-features --features bus,keyed \
    --target-dir "$folder/msrv"
}

debian_rust() { # VERSION: unpacks Debian 12's rustc-web, without installing it
  local version=$1 root=$folder/rust-$1 full
  [ ! -x "$root/usr/bin/rustc" ] || return 0
  full=$(apt-cache madison rustc-web | awk -F ' *[|] *' -v version="$version." \
    '!found && index($2, version) == 1 { print $2; found = 1 }')
  [ -n "$full" ] || { echo "hygiene: neither rustup nor Debian has Rust $version here" >&2; return 1; }
  mkdir -p "$root/debs"
  (cd "$root/debs" && apt-get download -q -o APT::Sandbox::User=root "rustc-web=$full" "libstd-rust-web-dev=$full" \
    "libstd-rust-web-$version=$full" libllvm19 libedit2 libz3-4 libbsd0 libmd0) >"$root/log" 2>&1 ||
    { cat "$root/log" >&2; return 1; }
  for full in "$root"/debs/*.deb; do dpkg -x "$full" "$root" || return 1; done
}

minimal() { # The package alone: the workspace's other crates want newer versions.
  local package=$folder/minimal
  rm -rf "$package"
  mkdir -p "$package"
  cp -r crates/busyhour/src crates/busyhour/README.md "$package/"
  # As it is published, without what only its tests need.
  python3 - crates/busyhour/Cargo.toml Cargo.toml >"$package/Cargo.toml" <<'PYTHON' || return 1
import sys, tomllib
crate, workspace = (tomllib.load(open(path, "rb")) for path in sys.argv[1:3])
print(f'[package]\nname = "busyhour"\nversion = "{workspace["workspace"]["package"]["version"]}"\nedition = "2024"\n[workspace]')
print('[lints.rust]\nunexpected_cfgs = "allow"')
print("[features]")
for name, parts in crate["features"].items():
    print(f'{name} = {parts}'.replace("'", '"'))
def table(name, of):
    print(f"[{name}]")
    for key, value in of.items():
        inline = value if isinstance(value, dict) else {"version": value}
        shown = {field: str(it).lower() if isinstance(it, bool) else repr(it) for field, it in inline.items()}
        fields = ", ".join(f"{field} = {it}" for field, it in shown.items())
        print(f"{key} = {{ {fields} }}")
table("dependencies", crate["dependencies"])
for platform, of in crate["target"].items():
    if "linux" in platform:
        table(f"target.'{platform}'.dependencies", of["dependencies"])
PYTHON
  (cd "$package" && "${unstable[@]}" cargo update --quiet -Zdirect-minimal-versions &&
    cargo check --quiet --all-features --target-dir "$folder/minimal-target")
}

platforms() {
  local target sources
  sources=$(scripts/std-sources.sh) || return 1
  for target in x86_64-unknown-linux-musl aarch64-unknown-linux-gnu i686-unknown-linux-gnu aarch64-apple-darwin; do
    check_for "$target" "$sources" || return 1
    echo "hygiene: platforms: $target: ok"
  done
  target=x86_64-pc-windows-msvc
  check_for "$target" "$sources" --no-default-features --features bus,keyed,heap,serde || return 1
  echo "hygiene: platforms: $target, without buffers: ok"
  check_for "$target" "$sources" 2>"$folder/windows" && { echo "hygiene: $target: buffers compile?" >&2; return 1; }
  grep --quiet "reserves memory as only Unix systems do" "$folder/windows" || { cat "$folder/windows" >&2; return 1; }
  echo "hygiene: platforms: $target, with buffers: refused with the reason"
}

check_for() { # TARGET SOURCES OPTIONS...
  "${unstable[@]}" __CARGO_TESTS_ONLY_SRC_ROOT="$2" cargo check --quiet -Zbuild-std=std,panic_abort --target "$1" \
    --package busyhour --lib --target-dir "$folder/platforms" "${@:3}"
}

interface() {
  scripts/public-api.sh busyhour >"$folder/interface.log" || return 1
  diff -u docs/public-api/busyhour.txt target/public-api/busyhour.txt || {
    echo "hygiene: the public interface has changed; if that is meant: scripts/hygiene.sh interface --accept" >&2
    return 1
  }
}

accept_interface() {
  scripts/public-api.sh busyhour >"$folder/interface.log"
  mkdir -p docs/public-api
  cp target/public-api/busyhour.txt docs/public-api/busyhour.txt
  echo "hygiene: docs/public-api/busyhour.txt has $(wc -l <docs/public-api/busyhour.txt) items"
}

semver() { # BUSYHOUR_BASELINE: a commit to compare with instead of the newest tag
  local baseline=${BUSYHOUR_BASELINE:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
  # Before the first release a change that breaks users is allowed, but never unnoticed.
  [ -n "$baseline" ] || baseline=$(git log -1 --format=%H -- docs/public-api/busyhour.txt)
  echo "hygiene: semver: compared with $baseline"
  tool cargo-semver-checks || return 1
  "$tools/bin/cargo-semver-checks" semver-checks --package busyhour --baseline-rev "$baseline"
}

licences() {
  tool cargo-deny || return 1
  "$tools/bin/cargo-deny" --workspace check licenses bans sources
}

publish() { scripts/publish-check.sh --build; }

tool() { # NAME
  [ -x "$tools/bin/$1" ] || cargo install --quiet --locked --debug "$1" --root "$tools" --target-dir "$tools/build"
}

fail() { echo "hygiene: $*" >&2; exit 1; }

main "$@"
