#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Shows uiw at work: builds it, then lets two processes talk iWARP, 20 pings and a stream of 1 GiB.
# As root over two TAP devices and a bridge, in a network namespace of its own that is gone
# afterwards, with the pings captured in uiw-demo.pcap; otherwise over shared memory.
set -euo pipefail
FOLDER=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
PING=build/tools/uiw-ping
STREAM=build/tools/uiw-stream
NS=uiwdemo-$$
DIR=$(mktemp -d)
SERVER_IP=198.18.0.1
CLIENT_IP=198.18.0.2
SERVER=
TCPDUMP=
IN=()

step() {
    local bold='' plain=''
    [[ ! -t 1 ]] || bold=$'\033[1m' plain=$'\033[0m'
    printf '\n%s== %s%s\n' "$bold" "$*" "$plain"
}

die() {
    echo "demo.sh: $*" >&2
    exit 1
}

tidy() {
    [[ -z $SERVER ]] || kill "$SERVER" 2>/dev/null || true
    [[ -z $TCPDUMP ]] || kill "$TCPDUMP" 2>/dev/null || true
    wait
    [[ ${#IN[@]} -eq 0 ]] || ip netns del "$NS" 2>/dev/null || true
    rm -rf "$DIR"
}
trap tidy EXIT
trap 'exit 130' INT TERM

build() {
    local log=build.log
    [[ -f build/build.ninja ]] || meson setup build >"$log" 2>&1 || {
        tail -n 20 "$log"
        die "meson failed, see $log"
    }
    ninja -C build tools/uiw-ping tools/uiw-stream >"$log" 2>&1 || {
        grep -A 15 -E 'FAILED|error' "$log" | head -n 40
        die "the build failed, see $log"
    }
}

# Two TAP devices on a bridge: two hosts on one wire.
make_network() {
    local tap
    ip netns add "$NS" || return 1
    IN=(ip netns exec "$NS")
    ip -n "$NS" link add wire type bridge stp_state 0 forward_delay 0 mcast_snooping 0 || return 1
    ip -n "$NS" link set wire up
    for tap in uiw0 uiw1; do
        ip -n "$NS" tuntap add "$tap" mode tap || return 1
        ip -n "$NS" link set "$tap" master wire up
    done
}

# wait_for TEXT FILE: up to 10 seconds.
wait_for() {
    local try
    for try in {1..500}; do
        ! grep -qs "$1" "$2" || return 0
        sleep 0.02
    done
    cat "$2"
    die "no '$1' after $((try / 50)) seconds"
}

# serve COMMAND...: in the background, until it listens.
serve() {
    # The last server's log says so, too, until the shell below opens its own.
    rm -f "$DIR/server"
    "${IN[@]}" timeout 120 "$@" --device "$SERVER_DEVICE" >"$DIR/server" 2>&1 &
    SERVER=$!
    wait_for 'listening on' "$DIR/server"
}

client() {
    "${IN[@]}" timeout 120 "$@" -a "$SERVER_IP" --device "$CLIENT_DEVICE"
}

served() {
    wait "$SERVER" || {
        cat "$DIR/server"
        die "the server failed"
    }
    SERVER=
    sed 's/^/server: /' <(tail -n 1 "$DIR/server")
}

start_capture() {
    command -v tcpdump >/dev/null || return 0
    ip netns exec "$NS" tcpdump -i uiw1 -U -s 66000 -B 65536 --immediate-mode -Z root \
        -w "$FOLDER/uiw-demo.pcap" tcp 2>"$DIR/tcpdump" &
    TCPDUMP=$!
    wait_for 'listening on' "$DIR/tcpdump"
}

stop_capture() {
    [[ -n $TCPDUMP ]] || return 0
    sleep 0.2
    kill "$TCPDUMP"
    wait "$TCPDUMP" || true
    TCPDUMP=
}

# The first three lines and the last.
shorten() {
    awk 'NR <= 3 { print } NR == 4 { print "..." } { last = $0 } END { if (NR > 3) print last }'
}

ping() {
    step "20 pings: the server Reads what the client has, and Writes it back"
    serve "$PING" -s -v
    client "$PING" -c -C 20 -v -V | shorten
    served
}

stream() {
    step "1 GiB of RDMA Writes, all of it checked at the other end"
    serve "$STREAM" -s
    client "$STREAM" -c
    served
}

step "Preparing and building (build/)"
./setup.sh
build

if [[ $(id -u) -eq 0 && -c /dev/net/tun ]] && make_network; then
    step "Two TAP devices on a bridge, in network namespace $NS"
    SERVER_DEVICE=tap:uiw0,ip=$SERVER_IP/24
    CLIENT_DEVICE=tap:uiw1,ip=$CLIENT_IP/24
else
    step "Two processes over shared memory (as root: over TAP devices, with a capture)"
    SERVER_DEVICE=shm:/$NS,ip=$SERVER_IP/24
    CLIENT_DEVICE=shm:/$NS,ip=$CLIENT_IP/24
fi
echo "server: $SERVER_DEVICE"
echo "client: $CLIENT_DEVICE"

[[ ${#IN[@]} -eq 0 ]] || start_capture
ping
stop_capture
stream

if [[ ${#IN[@]} -gt 0 && -e $FOLDER/uiw-demo.pcap ]]; then
    step "The pings are in uiw-demo.pcap"
    echo "tshark -r uiw-demo.pcap -Y iwarp_mpa --disable-protocol rpcordma        one line each"
    echo "tshark -r uiw-demo.pcap -Y iwarp_mpa --disable-protocol rpcordma -V     everything"
fi
