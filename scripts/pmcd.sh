#!/usr/bin/env bash
# Runs the real pmcd (Debian's package pcp) in the foreground, for tests: with a folder and a socket of its own, and with
# three agents: pmcd itself, PCP's `sample` metrics, and pmdaopenmetrics, which reads the *.url files in FOLDER/openmetrics.
# Clients find it at unix://FOLDER/pmcd.socket, and at 127.0.0.1:PORT. It needs no root and changes nothing outside FOLDER.
# usage: scripts/pmcd.sh FOLDER PORT
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
folder=$(cd "$1" && pwd) port=$2

for need in /usr/lib/pcp/bin/pmcd /var/lib/pcp/pmdas/sample/pmda_sample.so \
  /var/lib/pcp/pmdas/openmetrics/pmdaopenmetrics.python; do
  [ -e "$need" ] || { echo "pmcd.sh: $need is missing; scripts/install-deps.sh test installs it" >&2; exit 1; }
done
/usr/bin/python3 -c 'import requests, pcp' ||
  { echo "pmcd.sh: Python's requests or pcp is missing; scripts/install-deps.sh test installs them" >&2; exit 1; }

mkdir -p "$folder/openmetrics" "$folder/config/pmda" "$folder/pmdas/sample"
cat >"$folder/pmcd.conf" <<END
pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so
sample 29 dso sample_init /var/lib/pcp/pmdas/sample/pmda_sample.so
openmetrics 144 pipe binary notready /usr/bin/python3 /var/lib/pcp/pmdas/openmetrics/pmdaopenmetrics.python -c $folder/openmetrics -l $folder/openmetrics.log
END
sed '0,/^root {/d;0,/^}/d' /var/lib/pcp/pmns/root_pmcd >"$folder/pmcd.names"
{
  echo '#define SAMPLE 29'
  sed -n '/^sample {/,$p' /var/lib/pcp/pmdas/sample/pmns
} >"$folder/sample.names"
cat >"$folder/names" <<END
root {
    pmcd
    sample
    openmetrics 144:*:*
}
#include "pmcd.names"
#include "sample.names"
END
cd "$folder"
# The agents write what they remember below PCP_VAR_DIR; `sample` reads FOLDER/pmdas/sample/dynamic.indom.
export PCP_VAR_DIR=$folder PCP_PMDAS_DIR=$folder/pmdas
exec /usr/lib/pcp/bin/pmcd -f -A -U "$(id -un)" -c pmcd.conf -n names -s "$folder/pmcd.socket" \
  -i 127.0.0.1 -p "$port" -l pmcd.log -x pmcd.fatal
