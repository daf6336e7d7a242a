#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# live.sh PROGRAM [ARGUMENT]...: uiw-conform against a responder of its own over a TAP device, in a
# network namespace: the player on the kernel's TCP, the tested end on ours. Needs root; exits with 77
# when the network cannot be made. What cannot be driven from outside is the only thing left out.
set -u
CONFORM=$1
shift
NS=uiwc-$$
PID=

down() {
    [[ -z $PID ]] || kill "$PID" 2>/dev/null
    wait 2>/dev/null
    ip netns del "$NS" 2>/dev/null
}

skip() {
    echo "live: skipped: $*"
    exit 77
}

[[ $(id -u) -eq 0 && -c /dev/net/tun ]] || skip "needs root and /dev/net/tun"
command -v ip >/dev/null || skip "no ip"
trap down EXIT
trap 'exit 130' INT TERM
{ ip netns add "$NS" && ip -n "$NS" tuntap add uiwc0 mode tap &&
    ip -n "$NS" addr add 198.18.9.1/24 dev uiwc0 && ip -n "$NS" link set uiwc0 up &&
    ip -n "$NS" link set lo up; } 2>/dev/null || skip "no namespace or TAP device"
ip netns exec "$NS" sysctl -q -w net.ipv4.ip_local_port_range="10000 65000"
ip netns exec "$NS" "$CONFORM" --responder -d tap:uiwc0,ip=198.18.9.2/24 &
PID=$!
sleep 0.3
ip netns exec "$NS" "$CONFORM" "$@" 198.18.9.2
