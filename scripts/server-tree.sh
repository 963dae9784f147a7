#!/usr/bin/env bash
# Lays out the server as packages install it: program, unit, configuration, man pages, completions, documents.
# usage: scripts/server-tree.sh FOLDER PROGRAM
#
# FOLDER becomes the root of the tree. PROGRAM is a built `busyhour`; it writes its own man pages and completions.
# TELEPHONE is a folder that scripts/telephone.sh made; without it the tree has no client for the telephone page.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
root=$1 program=$2

put() { # MODE FILE TARGET
  install -D -m "$1" "$2" "$root$3"
}

put 755 "$program" /usr/bin/busyhour
strip --strip-unneeded "$root/usr/bin/busyhour"
put 644 packaging/busyhour.service /lib/systemd/system/busyhour.service
put 644 packaging/busyhour.sysusers.conf /usr/lib/sysusers.d/busyhour.conf
put 644 packaging/busyhour.tmpfiles.conf /usr/lib/tmpfiles.d/busyhour.conf
put 644 packaging/busyhour.sysctl.conf /usr/lib/sysctl.d/50-busyhour.conf
put 640 packaging/busyhour.toml /etc/busyhour/busyhour.toml
put 644 packaging/fail2ban/busyhour.conf /etc/fail2ban/filter.d/busyhour.conf
put 644 packaging/fail2ban/jail.conf /etc/fail2ban/jail.d/busyhour.conf
put 644 packaging/monitoring/alerts.yml /usr/share/busyhour/alerts.yml
put 644 packaging/monitoring/grafana-dashboard.json /usr/share/busyhour/grafana-dashboard.json
if [ -n "${TELEPHONE:-}" ]; then
  for file in jssip.js jssip.LICENSES; do
    put 644 "$TELEPHONE/$file" "/usr/share/busyhour/telephone/$file"
  done
fi
put 644 packaging/python/busyhour_client.py /usr/share/busyhour/python/busyhour_client.py
# The book, with the long reference beside it, and what README leads to that is there; the rest of its links lead to
# sources, and become names.
documents=$root/usr/share/doc/busyhour
book=$(mktemp -d)
trap 'rm -rf "$book"' EXIT
scripts/book.py prepare "$program" "$book/book"
mkdir -p "$documents"
cp -R "$book/book/src" "$documents/book"
scripts/book.py readme "$documents"
for telephone in alice bob; do
  for file in config accounts contacts; do
    put 644 "packaging/examples/baresip/$telephone/$file" "/usr/share/doc/busyhour/examples/baresip/$telephone/$file"
  done
done
find "$documents" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +

"$program" reference man "$root/usr/share/man/man1"
install -d -m 755 "$root/usr/share/man/man5"
mv "$root/usr/share/man/man1/busyhour.toml.5" "$root/usr/share/man/man5/"
find "$root/usr/share/man" -type f -exec gzip --best --no-name {} +
mkdir -p "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
  "$root/usr/share/fish/vendor_completions.d"
"$program" completions bash >"$root/usr/share/bash-completion/completions/busyhour"
"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_busyhour"
"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/busyhour.fish"
