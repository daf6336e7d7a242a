#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check_path.sh UIW-PING: two TAPs with two routers between them, and less room there than at the ends.
# Needs root; else it is skipped.
set -u
# shellcheck source=tools/check_server.sh
. "$(dirname "${BASH_SOURCE[0]}")/check_server.sh"
PING=$1
A=uiwpa$$
B=uiwpb$$
DIR=$(mktemp -d)
SERVER=
unset UIW_DEVICE UIW_PCAP
trap 'kill $SERVER 2>/dev/null; ip netns del $A 2>/dev/null; ip netns del $B 2>/dev/null; rm -rf "$DIR"' EXIT

# end NS TAP NET PEER-NET OURS THEIRS: a router with a TAP in network NET behind it.
end() {
    ip -n "$1" link set lo up && ip -n "$1" link set v0 up mtu 1300 &&
        ip -n "$1" addr add "198.18.9.$5/24" dev v0 && ip -n "$1" addr add "fd00:9::$5/64" dev v0 nodad &&
        ip -n "$1" tuntap add "$2" mode tap && ip -n "$1" link set "$2" up &&
        ip -n "$1" addr add "198.18.$3.1/24" dev "$2" && ip -n "$1" addr add "fd00:$3::1/64" dev "$2" nodad &&
        ip -n "$1" route add "198.18.$4.0/24" via "198.18.9.$6" &&
        ip -n "$1" route add "fd00:$4::/64" via "fd00:9::$6" &&
        ip netns exec "$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

up() {
    ip netns add $A && ip netns add $B && ip -n $A link add v0 type veth peer name v0 netns $B &&
        end $A t0 1 2 1 2 && end $B t1 2 1 2 1
}

# pings SERVER-DEVICE CLIENT-DEVICE ADDRESS: the last server's log must not be taken for this one's.
pings() {
    : >"$DIR/server"
    ip netns exec $B timeout 60 "$PING" -s --device "$1" >"$DIR/server" 2>&1 &
    SERVER=$!
    server_is_up $SERVER "$DIR/server" || return 1
    ip netns exec $A timeout 60 "$PING" -c -a "$3" -C 20 -S 60000 --device "$2" >"$DIR/client" 2>&1 &&
        wait $SERVER && grep -q '20 pings, 20 ok' "$DIR/client"
}

if [[ $(id -u) -ne 0 ]] || ! up 2>"$DIR/why"; then
    echo "skipped: no root, or no way to make the networks"
    cat "$DIR/why" 2>/dev/null
    exit 77
fi
FAILED=0
for v in 4 6; do
    if [[ $v -eq 4 ]]; then
        set -- tap:t1,ip=198.18.2.2/24,gw=198.18.2.1 tap:t0,ip=198.18.1.2/24,gw=198.18.1.1 198.18.2.2
    else
        set -- tap:t1,ip=fd00:2::2/64,gw=fd00:2::1 tap:t0,ip=fd00:1::2/64,gw=fd00:1::1 fd00:2::2
    fi
    if pings "$@"; then
        echo "ok IPv$v: messages of 60000 octets by a path of 1300"
    else
        echo "FAIL IPv$v"
        sed 's/^/   /' "$DIR/server" "$DIR/client"
        FAILED=1
    fi
done
exit $FAILED
