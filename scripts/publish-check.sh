#!/usr/bin/env bash
# Fails if a crate of the product could not be published: packages all of them as `cargo publish` would, those that
# depend on each other together, and looks into each package for what it must have. Nothing is uploaded.
# usage: scripts/publish-check.sh [--build]
#
#   --build   also builds each crate from its package, as cargo does before it uploads: some minutes
#
# `cargo publish --dry-run` does the same and asks the registry as well, so it is of no use without a network. Without
# --build, this takes seconds, and asks nobody if what cargo needs was downloaded before.
set -euo pipefail
cd "$(dirname "$0")/.."
log=target/publish-check.log
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

main() {
  local build=--no-verify crate
  case "${1:-}" in
    "") ;;
    --build) build="" ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
  mkdir -p target
  profiles >target/publish-profiles.toml
  package --offline $build || package $build || { cat "$log" >&2; exit 1; }
  for crate in crates/*/; do check "$(basename "$crate")"; done
}

package() { # OPTIONS...: what is not committed is packaged as it is
  cargo package --workspace --exclude xtask --exclude busyhour-loom --exclude busyhour-shuttle --allow-dirty \
    --config target/publish-profiles.toml "$@" >"$log" 2>&1
}

# Profiles of the workspace, which no package contains, so that dependencies built for the tests are not built again.
profiles() { sed -n '/^\[profile\.dev/,/^$/p' Cargo.toml; }

check() { # CRATE
  local archive=target/package/$1-$version.crate name
  for name in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src/lib.rs; do
    [ "$(tar --extract --gzip --to-stdout --file "$archive" "$1-$version/$name" 2>/dev/null | wc -c)" -gt 100 ] ||
      fail "$1: its package has no $name, or an empty one"
  done
  for name in description license keywords categories; do
    grep --quiet "^$name\(\.workspace\)\? = " "crates/$1/Cargo.toml" || fail "$1: its manifest has no $name"
  done
  # Tests and their data are not packaged: they need files of other crates.
  ! tar --list --gzip --file "$archive" | grep "^$1-$version/tests/" || fail "$1: its package has tests"
  echo "publish: $1: $(stat -c %s "$archive") bytes"
}

fail() { echo "publish: $*" >&2; exit 1; }

main "$@"
