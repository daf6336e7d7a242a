#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check_capture.sh UIW-PING UIW-DUMP: what a device captures of itself is what uiw-dump, and tshark where
# there is one, see in it. Only VLANs need root.
set -u
# shellcheck source=tools/check_server.sh
. "$(dirname "${BASH_SOURCE[0]}")/check_server.sh"
PING=$1
DUMP=$2
DIR=$(mktemp -d)
NS=uiwcap$$
IN=() # what the programs are started with
SERVER=
FAILED=0
COUNT=5
unset UIW_DEVICE UIW_PCAP
trap 'kill $SERVER 2>/dev/null; ip netns del $NS 2>/dev/null; rm -rf "$DIR"' EXIT

check() {
    if [[ $2 -eq 0 ]]; then
        echo "ok $1"
        return
    fi
    echo "FAIL $1"
    sed 's/^/   /' "$DIR"/{server,client,messages} 2>/dev/null | tail -n 30
    FAILED=$((FAILED + 1))
}

# pings SERVER-DEVICE CLIENT-DEVICE ADDRESS: with what the caller put into the environment at both ends.
pings() {
    : >"$DIR/server"
    timeout 60 "${IN[@]}" "$PING" -s --device "$1" >"$DIR/server" 2>&1 &
    SERVER=$!
    server_is_up $SERVER "$DIR/server" || return 1
    timeout 60 "${IN[@]}" "$PING" -c -a "$3" -C $COUNT -S 64 --device "$2" >"$DIR/client" 2>&1 &&
        wait $SERVER && grep -q "$COUNT pings, $COUNT ok" "$DIR/client"
}

messages() {
    grep -c "\"op\": *\"$1\"" "$DIR/messages"
}

# shows FILE: the messages of the pings are there, and nothing is wrong with them.
shows() {
    "$DUMP" --json "$1" >"$DIR/messages" 2>&1 || return 1
    [[ $(messages send) -eq $((4 * COUNT)) && $(messages read_request) -eq $COUNT &&
        $(messages read_response) -eq $COUNT && $(messages write) -ge $COUNT ]] &&
        ! grep -qE '"kind": *"(verdict|gap)"' "$DIR/messages"
}

decoded() {
    local packets
    packets=$(tshark -o tcp.try_heuristic_first:TRUE --disable-protocol rpcordma -r "$1" \
        -Y 'iwarp_ddp || iwarp_ddp_rdmap' 2>"$DIR/messages" | wc -l)
    [[ $packets -ge $((4 * COUNT)) ]] &&
        ! tshark -r "$1" -Y '_ws.malformed' 2>/dev/null | grep -q .
}

both_ends() {
    local kind=$1 server=$2 client=$3 address=$4
    pings "$server,capture=$DIR/$kind-s.pcapng" "$client,capture=$DIR/$kind-c.pcapng" "$address"
    check "$kind: pings" $?
    for end in s c; do
        shows "$DIR/$kind-$end.pcapng"
        check "$kind: uiw-dump sees all messages in the capture of end $end" $?
        if command -v tshark >/dev/null; then
            decoded "$DIR/$kind-$end.pcapng"
            check "$kind: tshark decodes the capture of end $end" $?
        fi
    done
}

# A bridge with two TAPs in a network namespace.
taps() {
    local t
    ip netns add $NS && ip -n $NS link add br0 type bridge stp_state 0 mcast_snooping 0 &&
        ip -n $NS link set br0 up || return 1
    for t in t0 t1; do
        ip -n $NS tuntap add $t mode tap && ip -n $NS link set $t master br0 up || return 1
    done
}

# On the bridge all frames have the tag, so they have it in the capture.
tagged() {
    python3 - "$1" <<'EOF'
import struct, sys

data, at, tags = open(sys.argv[1], "rb").read(), 0, set()
while at < len(data):
    kind, size = struct.unpack_from("<II", data, at)
    if size < 12:
        sys.exit("a block of %d octets" % size)
    if kind == 6:
        frame = data[at + 28:]
        tags.add(struct.unpack_from(">HH", frame, 12))
    at += size
sys.exit(tags != {(0x8100, 7)})
EOF
}

if [[ $(id -u) -eq 0 ]] && taps 2>"$DIR/messages"; then
    IN=(ip netns exec $NS)
    both_ends vlan tap:t0,ip=198.18.0.1/24,vlan=7 tap:t1,ip=198.18.0.2/24,vlan=7 198.18.0.1
    for end in s c; do
        tagged "$DIR/vlan-$end.pcapng"
        check "vlan: all frames have the tag in the capture of end $end" $?
    done
    IN=()
else
    echo "no root or no TAPs: VLANs are left out"
fi

NET=shm:/uiw-capture-$$
both_ends shm "$NET,ip=198.18.0.1" "$NET,ip=198.18.0.2" 198.18.0.1
both_ends shm6 "$NET,ip=fd00::1" "$NET,ip=fd00::2" fd00::1

UIW_PCAP=$DIR/env.pcapng pings "$NET,ip=198.18.0.1,capture=/dev/null" "$NET,ip=198.18.0.2" 198.18.0.1 &&
    shows "$DIR/env.pcapng"
check "UIW_PCAP is for devices without a file of their own" $?

pings "$NET,ip=198.18.0.1,capture=/dev/full" "$NET,ip=198.18.0.2" 198.18.0.1 &&
    [[ $(grep -c 'capture /dev/full: No space left' "$DIR/server") -eq 1 ]]
check "a full disk ends the capture, not the connection" $?

UIW_PCAP=$DIR/p%p.pcapng pings "$NET,ip=198.18.0.1" "$NET,ip=198.18.0.2" 198.18.0.1 &&
    files=("$DIR"/p[0-9]*.pcapng) && [[ ${#files[@]} -eq 2 ]] && shows "${files[0]}" && shows "${files[1]}"
check "%p is the process id" $?

UIW_PCAP=$DIR/same.pcapng pings "$NET,ip=198.18.0.1" "$NET,ip=198.18.0.2" 198.18.0.1
[[ $? -ne 0 ]] && grep -q "capture $DIR/same.pcapng: another process writes it" "$DIR/client"
check "two processes do not write one file" $?
kill $SERVER
wait $SERVER

"$PING" -s --device "$NET,ip=198.18.0.1,capture=$DIR/none/x" >"$DIR/client" 2>&1
[[ $? -ne 0 ]] && grep -q "capture $DIR/none/x: No such file" "$DIR/client"
check "a file that cannot be made is named" $?

[[ $FAILED -eq 0 ]]
