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
# ip6-KIND, sock-ip6-KIND: over IPv6, between link-local addresses.
# BUILD is the build folder, ARGUMENTs are for the player. Needs root; exits with 77 when the network
# cannot be made.
set -u
KIND=$1
CONFORM=$2/tools/conform/uiw-conform
PING=$2/tools/uiw-ping
shift 2
NS=uiwc-$$
PID=
LOG=$(mktemp)

down() {
    [[ -z $PID ]] || kill "$PID" 2>/dev/null
    ip netns pids "$NS" 2>/dev/null | xargs -r kill 2>/dev/null
    wait 2>/dev/null
    ip netns del "$NS" 2>/dev/null
    rm -f "$LOG"
}

# listens: waits until the tested end does, 10 seconds at most.
listens() {
    for _ in {1..500}; do
        ! grep -q 'listening on' "$LOG" || return 0
        kill -0 "$PID" 2>/dev/null || break
        sleep 0.02
    done
    echo "live.sh: the $KIND does not listen:"
    cat "$LOG"
    exit 1
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
        ip -n "$NS" link set uiwc0 up && ip -n "$NS" addr add "$@" dev uiwc0
}

# Sets UIW_DEVICE, and PEER: the tested end as the player names it. OURS is the player's as a client of it
# does.
make_link() {
    case $KIND in
    sock-ip6-*)
        OURS=fe80::1%lo
        PEER=[fe80::2%lo]
        UIW_DEVICE=sock:,mtu=1500 # at no address of its own: zones matter
        ip -n "$NS" addr add fe80::1/64 dev lo nodad && ip -n "$NS" addr add fe80::2/64 dev lo nodad
        ;;
    sock-*)
        OURS=127.0.0.1
        PEER=127.0.0.2
        UIW_DEVICE=sock:$PEER,mtu=1500 # segments as on the TAP device
        ;;
    ip6-*)
        OURS=fe80::1
        PEER=[fe80::ff:fe00:2%uiwc0] # comes from the MAC address
        UIW_DEVICE=tap:uiwc0,ip=fd00:0:0:9::2/64,mac=02:00:00:00:00:02
        make_tap "$OURS/64" nodad
        ;;
    *)
        OURS=198.18.9.1
        PEER=198.18.9.2
        UIW_DEVICE=tap:uiwc0,ip=$PEER/24
        make_tap "$OURS/24"
        ;;
    esac
}

trap down EXIT
[[ $(id -u) -eq 0 ]] || skip "needs root"
command -v ip >/dev/null || skip "no ip"
trap 'exit 130' INT TERM
{ ip netns add "$NS" && ip -n "$NS" link set lo up; } 2>/dev/null || skip "no namespace"
make_link 2>/dev/null || skip "no TAP device or address"
export UIW_DEVICE
KIND=${KIND#sock-}
KIND=${KIND#ip6-}
in_ns sysctl -q -w net.ipv4.ip_local_port_range="10000 65000"
case $KIND in
responder)
    in_ns "$CONFORM" --responder >"$LOG" 2>&1 &
    PID=$!
    PEERS=("$PEER")
    listens
    ;;
server)
    in_ns "$PING" -s -P >"$LOG" 2>&1 &
    PID=$!
    PEERS=("$PEER")
    listens
    ;;
client)
    clients &
    PID=$!
    PEERS=(--listen)
    ;;
*)
    echo "live.sh: no kind '$KIND'" >&2
    exit 2
    ;;
esac
in_ns "$CONFORM" "$@" "${PEERS[@]}"
