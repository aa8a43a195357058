#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program as ranks in network namespaces that are joined by a bridge.
#   netns.sh "RANKS..." SETUP PROGRAM ARG...
# RANKS: how many ranks run in each namespace.  SETUP: a shell command that is run in each, where eth0
# is its link.  Exit code 77: not permitted here.
ranks=$1 setup=$2
shift 2
prefix=ts$$ hub=ts$$hub
namespaces=$hub
pids=

cleanup() {
    kill $pids 2>/dev/null
    for n in $namespaces; do ip netns del "$n" 2>/dev/null; done
}
trap cleanup EXIT
trap 'exit 1' INT TERM

command -v ip >/dev/null || { echo "no program ip here"; exit 77; }
ip netns add "$hub" 2>/dev/null || { echo "network namespaces are not permitted here"; exit 77; }
ip netns exec "$hub" ip link add br0 type bridge 2>/dev/null || { echo "no bridges here"; exit 77; }
ip netns exec "$hub" ip link set br0 up

world=0 i=0
for count in $ranks; do world=$((world + count)); done
for count in $ranks; do
    i=$((i + 1)) n=$prefix$i
    ip netns add "$n" || exit 77
    namespaces="$namespaces $n"
    ip link add "$n" netns "$hub" type veth peer name eth0 netns "$n" || exit 77
    ip netns exec "$hub" ip link set "$n" master br0 up
    ip netns exec "$n" ip addr add "10.77.0.$i/24" dev eth0
    ip netns exec "$n" ip link set eth0 up
    ip netns exec "$n" ip link set lo up
    ip netns exec "$n" sh -c "$setup" || { echo "not permitted here: $setup"; exit 77; }
done

export MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 WORLD_SIZE=$world TESSERA_TIMEOUT=30000
rank=0 i=0
for count in $ranks; do
    i=$((i + 1))
    while [ "$count" -gt 0 ]; do
        RANK=$rank ip netns exec "$prefix$i" "$@" &
        pids="$pids $!"
        rank=$((rank + 1)) count=$((count - 1))
    done
done
result=0
for p in $pids; do wait "$p" || result=1; done
pids=
echo "bytes sent by the first: $(ip netns exec "${prefix}1" cat /sys/class/net/eth0/statistics/tx_bytes)"
exit $result
