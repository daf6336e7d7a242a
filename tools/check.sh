#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh UIW-PING UIW-STREAM: runs the tools against each other over shared memory and over sockets,
# and with wrong arguments. No root.
set -u
# shellcheck source=tools/check_server.sh
. "$(dirname "${BASH_SOURCE[0]}")/check_server.sh"
PING=$1
STREAM=$2
DIR=$(mktemp -d)
NET=/uiw-tools-$$
SERVER=
FAILED=0
IP=198.18.0.1
PORT=7174
A=shm:$NET,ip=$IP/24
B=shm:$NET,ip=198.18.0.2/24
unset UIW_DEVICE
trap 'kill $SERVER 2>/dev/null; rm -rf "$DIR"' EXIT

# check NAME STATUS: reports the last test.
check() {
    if [[ $2 -eq 0 ]]; then
        echo "ok $1"
        return
    fi
    echo "FAIL $1"
    sed 's/^/   /' "$DIR/server" "$DIR/out"
    FAILED=$((FAILED + 1))
}

# serve COMMAND...: starts a server and waits until it listens.
serve() {
    : >"$DIR/server"
    timeout 60 "$@" >"$DIR/server" 2>&1 &
    SERVER=$!
    server_is_up $SERVER "$DIR/server"
}

client() {
    timeout 60 "$@" >"$DIR/out" 2>&1
}

# says STATUS TEXT COMMAND...: exits with that status and one line that has TEXT.
says() {
    local want=$1 text=$2 rc=0
    shift 2
    : >"$DIR/server"
    timeout 30 "$@" >"$DIR/out" 2>&1 </dev/null || rc=$?
    [[ $rc -eq $want ]] && grep -q "$text" "$DIR/out"
    check "${1##*/} ${*:2}" $?
}

ping() {
    serve "$PING" -s -p $PORT --device "$A" &&
        client "$PING" -c -a $IP -p $PORT -V "$@" --device "$B" &&
        wait $SERVER && grep -q "uiw-ping: .* ok; round trip min" "$DIR/out"
    check "ping $* ${A%%:*} ${A#*/24}" $?
}

stream() {
    serve "$STREAM" -s -p $PORT --device "$A" &&
        client "$STREAM" -c -a $IP -p $PORT "$@" --device "$B" &&
        wait $SERVER && [[ $(grep -o 'checksum [0-9a-f]*' "$DIR/out") == \
            $(grep -o 'checksum [0-9a-f]*' "$DIR/server") ]]
    check "stream $* ${A%%:*}" $?
}

# with_keys KEYS COMMAND...: with them in both device strings.
with_keys() {
    local keys=$1 a=$A b=$B
    shift
    A+=$keys
    B+=$keys
    "$@"
    A=$a
    B=$b
}

# over_sockets ADDRESS COMMAND...: the kernel's loopback belongs to others as well.
over_sockets() {
    local IP=$1 PORT=$((RANDOM % 20000 + 10000)) A=sock:$1 B=sock:$1
    shift
    "$@"
}

interrupted() {
    serve "$PING" -s -p $PORT --device "$A"
    timeout -s INT 1 "$PING" -c -a $IP -p $PORT -S 64 --device "$B" >"$DIR/out" 2>&1
    grep -q "uiw-ping: .* ok; round trip min" "$DIR/out" && wait $SERVER
    check "ping, interrupted, ${A%%:*}" $?
}

# bereaved ADDRESS [FIN]: the kernel closes for a process that dies, which is good order between two
# pings.
bereaved() {
    local rc=0
    serve "$PING" -s -p $PORT --device "$A"
    { timeout -s KILL 1 "$PING" -c -a $IP -p $PORT --device "$B" >"$DIR/out" 2>&1; } 2>/dev/null
    wait $SERVER || rc=$?
    if [[ $rc -eq 0 ]]; then
        [[ -n ${2:-} ]]
    else
        [[ $rc -eq 1 ]] && grep -q "uiw-ping: client $1:.*: gone in ping" "$DIR/server"
    fi
    check "ping, client killed, ${A%%:*}" $?
}

ping -C 100
ping -C 20 -S 65535 -v
ping -C 5 -S 4m
with_keys ,progress=polled ping -C 20
with_keys ,crc=off ping -C 20 -S 5000
with_keys ,markers=on ping -C 20 -S 5000
stream -n 200m
stream -n 3000001 -S 1k

# An interrupted client reports, and its server sees it close in good order.
interrupted

# A server whose client dies says so and fails.
bereaved 198.18.0.2

for ip in 127.0.0.1 ::1; do
    over_sockets $ip ping -C 100
    over_sockets $ip ping -C 5 -S 4m
    over_sockets $ip stream -n 200m
done
over_sockets 127.0.0.1 with_keys ,mtu=1500,cc=reno stream -n 100m
over_sockets 127.0.0.1 with_keys ,progress=polled ping -C 20
over_sockets 127.0.0.1 with_keys ,markers=on,crc=off stream -n 3000001 -S 1k
over_sockets 127.0.0.1 interrupted
over_sockets 127.0.0.1 bereaved 127.0.0.1 fin

says 2 "no device" "$PING" -s
says 2 "either -s or -c" "$PING"
says 2 "either -s or -c" "$PING" -s -c
says 2 "needs -a" "$PING" -c --device "$A"
says 2 "not an IP address" "$PING" -c -a nowhere --device "$A"
says 2 "not a size" "$PING" -c -a 198.18.0.1 -S 22
says 2 "what is this" "$PING" -s extra
says 2 "Try" "$PING" --no-such-option
says 1 "uiw-ping: " "$PING" -s --device tap:uiwnone,ip=198.18.0.1/24
says 1 "uiw-ping: " "$PING" -s --device nonsense
says 1 "sock:nowhere: expected" "$PING" -s --device sock:nowhere
says 1 "sock: expected one address" "$PING" -s --device sock:127.0.0.1,ip=127.0.0.2
says 1 "cc=none is refused by the kernel" "$PING" -s --device sock:,cc=none
says 1 "cc= is for sock only" "$PING" -s --device "$A,cc=cubic"
says 1 "gw= is for tap pcap shm pair only" "$PING" -s --device sock:,gw=198.18.0.9
says 1 "no interface of this host" "$PING" -s --device sock:198.18.99.99
says 1 "link-local, expected its interface" "$PING" -s --device sock:fe80::1
if [[ -e /proc/net/if_inet6 ]]; then
    says 1 "\[::1\]:1: connection refused" "$PING" -c -a ::1 -p 1 --device sock:
    says 1 "\[::1\]:1: connection refused" "$STREAM" -c -a ::1 -p 1 --device sock:
fi
# --timeout is the limit of the set-up, too.
says 1 "set-up limit" "$PING" -c -a 198.19.0.1 --timeout 1 --device "$B,gw=198.18.0.7"
# A server whose interface is removed does not wait for clients for ever. Root, and a network of its own.
gone() {
    local rc=0
    : >"$DIR/server"
    timeout 60 unshare -n bash -c 'ip tuntap add t0 mode tap && ip link set t0 up
        "$@" --device tap:t0,ip=198.18.0.1/24 &
        until grep -q "listening on" "$0"; do sleep 0.02; done
        ip link del t0
        wait $!' "$DIR/out" "$@" >"$DIR/out" 2>&1 || rc=$?
    [[ $rc -eq 1 ]] && grep -q "^${1##*/}: .*the device has failed" "$DIR/out"
    check "${1##*/} ${*:2}, its interface removed" $?
}
if unshare -n ip tuntap add t0 mode tap 2>/dev/null; then
    gone "$PING" -s
    gone "$PING" -s -P
    gone "$STREAM" -s
fi
# A client that is interrupted while it connects ends at once; its device would take a minute.
for tool in "$PING" "$STREAM"; do
    says 1 "${tool##*/}: 198.18.0.1:[0-9]*: interrupted" bash -c '"$@" & p=$!; sleep 1; kill -TERM $p; wait $p' - \
        "$tool" -c -a 198.18.0.1 --device "$B,setup=60"
done
says 0 "Usage" "$PING" --help
says 0 "uiw-ping 0" "$PING" --version
for tool in "$PING" "$STREAM"; do
    says 1 "standard output: cannot write" bash -c '"$0" --version >/dev/full' "$tool"
done
says 2 "not a size" "$STREAM" -c -a 198.18.0.1 -S 1
says 2 "no device" "$STREAM" -s
says 0 "Usage" "$STREAM" -h
exit $((FAILED > 0))
