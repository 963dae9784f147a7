# The step --server of scripts/fresh.sh, which sources this file: the packages of the server in a clean root.
#
# Installed where systemd does not run, started, upgraded, reloaded and removed where it does; then the RPM package and the
# image. The program is that in PROGRAM, or target/debug/busyhour, which is built when there is none.
# The booted root has a network of its own, so its ports are not this machine's.

server() {
  there=$root/opt/server
  local program=${PROGRAM:-target/debug/busyhour}
  mkdir -p "$there"
  [ -n "${PROGRAM:-}" ] || cargo build --quiet --package busyhour-server || return 1
  server_packages "$program" || return 1
  server_unit || return 1
  chmod -R a+rX "$there"
  as root "$(declare -f install_before); install_before" || return 1
  cp docs/book/src/five-minutes.md "$there/" || return 1
  booted "$(declare -f use_server wait_for answers two_telephones subscribed typed); use_server && two_telephones" || return 1
  server_image
}

server_packages() { # PROGRAM
  export DEBEMAIL=${DEBEMAIL:-busyhour@example.org} DEB_COMPRESSION=gzip
  VERSION=0.0.9 scripts/deb-server.sh "$there/before" "$1" || return 1
  scripts/deb-server.sh "$there/now" "$1" || return 1
  scripts/rpm-server.sh "$there/now" "$1" || return 1
  lintian --allow-root --fail-on error,warning,info --info "$there"/now/*.deb
}

server_unit() { # its exposure, which must not exceed 2.0
  local told
  told=$(systemd-analyze security --offline=true --threshold=20 packaging/busyhour.service) ||
    { echo "$told" | grep -v '^✓' >&2; echo "fresh: the unit is exposed more than 2.0" >&2; return 1; }
  echo "$told" | tail -1
}

install_before() { # in the root, where systemd does not run
  set -e
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 /opt/server/before/busyhour_*.deb rpm curl baresip-core
  [ "$(stat -c '%U %a' /var/lib/busyhour)" = "busyhour 700" ]
  [ "$(stat -c '%U %G %a' /etc/busyhour/busyhour.toml)" = "root busyhour 640" ]
}

wait_for() { # COMMAND...: until it succeeds
  local try
  for try in $(seq 300); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  echo "fresh: still not, after a minute: $*" >&2
  systemctl status busyhour --no-pager >&2
  return 1
}

answers() {
  [ "$(curl -s http://127.0.0.1:8080/healthz)" = ok ]
}

use_server() { # in the booted root
  set -e
  wait_for answers # it was enabled when it was installed
  # What shall survive: an account, and a line of the configuration.
  printf 'something long\n' | busyhour device add alice --config /etc/busyhour/busyhour.toml
  sed -i 's/^max_contacts = .*/max_contacts = 7/' /etc/busyhour/busyhour.toml
  systemctl reload busyhour
  wait_for sh -c 'journalctl -u busyhour | grep -F "a changed setting needs a restart"'
  before=$(systemctl show -p MainPID --value busyhour)
  dpkg --install --force-confold /opt/server/now/busyhour_*.deb
  wait_for answers
  [ "$before" != "$(systemctl show -p MainPID --value busyhour)" ]
  busyhour device show alice --config /etc/busyhour/busyhour.toml | grep -F alice
  grep -x 'max_contacts = 7' /etc/busyhour/busyhour.toml
  curl -s http://127.0.0.1:8080/api/v1/stats | grep -q '"account_count":1'
  [ "$(cat /proc/sys/net/core/rmem_max)" -ge 1 ]
  test -s /usr/share/man/man1/busyhour-serve.1.gz
  test -s /usr/share/man/man5/busyhour.toml.5.gz
  test -s /usr/share/doc/busyhour/book/five-minutes.md
  test -s /usr/share/busyhour/python/busyhour_client.py
  bash -c 'source /usr/share/bash-completion/completions/busyhour && complete -p busyhour'
  # A wrong configuration is told, and not tried again and again.
  echo 'wrong = 1' >>/etc/busyhour/busyhour.toml
  ! systemctl restart busyhour
  journalctl -u busyhour | grep -F 'busyhour.toml:'
  sed -i '$d' /etc/busyhour/busyhour.toml
  systemctl reset-failed busyhour
  systemctl start busyhour
  wait_for answers
  dpkg --remove busyhour
  ! systemctl is-active busyhour
  test -e /etc/busyhour/busyhour.toml
  dpkg --purge busyhour
  test ! -e /etc/busyhour
  test -e /var/lib/busyhour/busyhour.db
  [ -z "$(find /usr /lib/systemd /etc -name '*busyhour*' ! -path '/etc/*-')" ]

  rpm --install --nodeps --excludedocs /opt/server/now/busyhour-*.rpm
  wait_for answers
  [ "$(curl -s http://127.0.0.1:8080/api/v1/stats | grep -o '"account_count":1')" ] # the database is still there
  rpm --upgrade --force --nodeps /opt/server/now/busyhour-*.rpm
  wait_for answers
  rpm --erase --nodeps busyhour
  ! systemctl is-active busyhour
  test ! -e /usr/bin/busyhour
}

# The ten commands of the book, as they stand there: two telephones register, and each sees the state of the other.
# The network of this root is its own, so what the first one needs is installed already, but for the package.
two_telephones() {
  set -e
  rm -rf /var/lib/busyhour
  cd /opt/server/now
  sed -n '/^```sh$/,/^```$/{/^```/d;p}' /opt/server/five-minutes.md >/tmp/commands
  [ "$(wc -l </tmp/commands)" -le 10 ] || { echo "fresh: the book needs more than ten commands" >&2; return 1; }
  while read -r line; do
    echo "fresh: $line"
    typed "$line" || { echo "fresh: the book's command fails: $line" >&2; cat /tmp/telephone-* >&2; return 1; }
  done </tmp/commands
  wait_for sh -c 'busyhour show device alice | grep -q 127.0.0.1'
  [ "$(curl -s http://127.0.0.1:8080/api/v1/stats | grep -o '"device_count":2')" ]
  # A change is printed, and the first state is none: alice goes and comes again, then bob goes.
  # Each subscribes some seconds after it has registered, without a word.
  wait_for subscribed 2
  kill "$(cat /tmp/telephone-alice.pid)"
  wait_for grep -q 'sip:alice@127.0.0.1> changed status.*to.*Offline' /tmp/telephone-bob
  typed "baresip -f ~/alice"
  wait_for grep -q 'sip:alice@127.0.0.1> changed status.*to.*Online' /tmp/telephone-bob
  wait_for subscribed 3
  kill "$(cat /tmp/telephone-bob.pid)"
  wait_for grep -q 'sip:bob@127.0.0.1> changed status.*to.*Offline' /tmp/telephone-alice
  kill "$(cat /tmp/telephone-alice.pid)"
}

subscribed() { # COUNT: since the server began, and the last one has had a moment to be told
  [ "$(curl -s http://127.0.0.1:8080/metrics | sed -n 's/^busyhour_watch_created_total \([0-9]*\).*/\1/p')" -ge "$1" ] && sleep 2
}

# A telephone runs until it is ended, in a terminal of its own; here in the background, until it has registered.
typed() { # LINE
  local user
  case "$1" in
    "baresip -f ~/"*)
      user=${1#baresip -f ~/}
      # Line by line, as on a terminal. baresip sometimes begins without sending anything; then it is started again.
      for try in 1 2 3 4 5; do
        setsid bash -c 'echo $$ >"$1.pid"; exec stdbuf -oL baresip -f "$HOME/$2" >"$1" 2>&1 < <(sleep 600)' - "/tmp/telephone-$user" "$user" &
        for moment in $(seq 50); do
          ! grep -q '200 OK' "/tmp/telephone-$user" 2>/dev/null || return 0
          sleep 0.2
        done
        kill "$(cat "/tmp/telephone-$user.pid")" || true
      done
      return 1
      ;;
    *) DEBIAN_FRONTEND=noninteractive bash -c "set -e; { $1; } </dev/null" ;;
  esac
}

server_image() { # made of the same build, read by the tools of others, and run by the user that it names
  local image=$there/image.tar told
  scripts/static.sh "$there/busyhour" "${PROFILE:-dev}" || return 1
  strip "$there/busyhour" || return 1
  scripts/oci-server.py "$there/busyhour" "$image" --version test || return 1
  told=$(skopeo inspect --config "oci-archive:$image:test") || return 1
  grep -q '"User": "65532:65532"' <<<"$told" || return 1
  mkdir "$there/layout" && tar xf "$image" -C "$there/layout" || return 1
  umoci unpack --image "$there/layout:test" "$there/bundle" || return 1
  scripts/oci-server.py "$there/busyhour" "$there/again.tar" --version test || return 1
  cmp "$image" "$there/again.tar" || { echo "fresh: the image differs from one of the same program" >&2; return 1; }
  unshare --net --mount --propagation private bash -c "$(declare -f run_image); run_image '$there/bundle'"
}

run_image() { # BUNDLE: what its config.json says, as a container engine does it, which brings /dev
  set -e
  ip link set lo up
  mkdir "$1/rootfs/dev" && mount --rbind /dev "$1/rootfs/dev"
  mapfile -t environment < <(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["process"]["env"], sep="\n")' "$1/config.json")
  mapfile -t words < <(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["process"]["args"], sep="\n")' "$1/config.json")
  env -i "${environment[@]}" /usr/sbin/chroot --userspec=65532:65532 "$1/rootfs" "${words[@]}" &
  for try in $(seq 100); do
    [ "$(curl -s http://127.0.0.1:8080/healthz)" != ok ] || break
    sleep 0.2
  done
  [ "$(curl -s http://127.0.0.1:8080/healthz)" = ok ]
  kill %1
  wait %1
}

booted() { # COMMAND: in the root, as root, with systemd running
  local container leader try status=0
  mount -t proc proc /proc # that of this namespace: nspawn looks its own processes up there
  # It mounts /proc, /sys and /dev itself, so those that are there go, for it alone.
  unshare --mount --propagation private bash -c 'umount --recursive "$1"/{dev,sys,proc} && exec "${@:2}"' - "$root" \
    systemd-nspawn --quiet --directory "$root" --boot --register=no --keep-unit --console=pipe --private-network \
    >"$FRESH_INSIDE/boot.log" 2>&1 </dev/null &
  container=$!
  for try in $(seq 300); do
    leader=$(pgrep --parent "$container" | head -1) || true
    if [ -n "$leader" ] && inside_of "$leader" 'systemctl is-system-running' 2>/dev/null | grep -qE '^(running|degraded)'; then break; fi
    kill -0 "$container" 2>/dev/null || { cat "$FRESH_INSIDE/boot.log" >&2; echo "fresh: systemd-nspawn ended" >&2; return 1; }
    sleep 0.2
  done
  inside_of "$leader" "$1" || status=$?
  kill -s RTMIN+4 "$leader" # poweroff, in the words of systemd
  wait "$container" || true
  return "$status"
}

inside_of() { # PROCESS COMMAND
  nsenter --target "$1" --all --wdns=/ env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "$2" </dev/null
}
