#!/usr/bin/env bash
# Three nodes, three NATS servers and PostgreSQL with a synchronous standby, each in a network namespace of its own, under load and
# faults; then a check of everything that was asked, answered, told and committed.
#
# usage: scripts/cluster-faults.sh [--list] [--faults NAME,NAME…] [--rounds N] [--hold SECONDS] [--seed N] [--devices N]
#                                  [--keep FOLDER]
#        BUSYHOUR=PROGRAM OTHER=PROGRAM scripts/cluster-faults.sh
#
# By default each fault happens once. BUSYHOUR is target/quick/busyhour; a rolling restart changes to OTHER and back, if that is
# set. It needs root, and Debian's packages postgresql, nats-server, iproute2, nftables and faketime. The namespaces and the
# processes in them end with it. 0: nothing was found.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 scripts/cluster-history.py --self-test
exec python3 scripts/cluster-faults.py "$@"
