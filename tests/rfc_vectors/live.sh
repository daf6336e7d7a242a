#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# live.sh KIND BUILD [ARGUMENT]...: uiw-conform on the kernel's TCP, over a TAP device in a network
# namespace, against
#
#   responder   uiw-conform --responder: everything
#   server      uiw-ping -s, which is none: the base set
#   client      uiw-ping -c, again and again, to uiw-conform --listen
#
# sock-KIND: the tested end on the kernel's TCP as well (a device sock:), over the namespace's loopback.
# BUILD is the build folder, ARGUMENTs are for the player. Needs root; exits with 77 when the network
# cannot be made.
set -u
KIND=$1
CONFORM=$2/tools/conform/uiw-conform
PING=$2/tools/uiw-ping
shift 2
NS=uiwc-$$
OURS=198.18.9.1
PEER=198.18.9.2
PID=

down() {
    [[ -z $PID ]] || kill "$PID" 2>/dev/null
    ip netns pids "$NS" 2>/dev/null | xargs -r kill 2>/dev/null
    wait 2>/dev/null
    ip netns del "$NS" 2>/dev/null
}

skip() {
    echo "live: skipped: $*"
    exit 77
}

in_ns() {
    ip netns exec "$NS" "$@"
}

# What a client that is told nothing does: it tries again.
clients() {
    while true; do
        in_ns "$PING" -c -a "$OURS" -C 1 --timeout 1
    done >/dev/null 2>&1
}

make_tap() {
    [[ -c /dev/net/tun ]] && ip -n "$NS" tuntap add uiwc0 mode tap &&
        ip -n "$NS" addr add "$OURS/24" dev uiwc0 && ip -n "$NS" link set uiwc0 up
}

[[ $(id -u) -eq 0 ]] || skip "needs root"
command -v ip >/dev/null || skip "no ip"
trap down EXIT
trap 'exit 130' INT TERM
{ ip netns add "$NS" && ip -n "$NS" link set lo up; } 2>/dev/null || skip "no namespace"
export UIW_DEVICE=tap:uiwc0,ip=$PEER/24
if [[ $KIND == sock-* ]]; then
    KIND=${KIND#sock-}
    OURS=127.0.0.1
    PEER=127.0.0.2
    # Segments as on the TAP device.
    UIW_DEVICE=sock:$PEER,mtu=1500
else
    make_tap 2>/dev/null || skip "no TAP device"
fi
in_ns sysctl -q -w net.ipv4.ip_local_port_range="10000 65000"
case $KIND in
responder)
    in_ns "$CONFORM" --responder &
    PEERS=("$PEER")
    ;;
server)
    in_ns "$PING" -s -P >/dev/null 2>&1 &
    PEERS=("$PEER")
    ;;
client)
    clients &
    PEERS=(--listen)
    ;;
*)
    echo "live.sh: no kind '$KIND'" >&2
    exit 2
    ;;
esac
PID=$!
sleep 0.3
in_ns "$CONFORM" "$@" "${PEERS[@]}"
