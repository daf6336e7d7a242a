#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh [SET]: uiw against the kernel's siw driver (and rping on it), each as client and as server.
#
#   short   what every change should pass: a few minutes (default)
#   full    more sizes, both MTUs
#   vm      the short set against Debian's own kernel under qemu
#
# Prints a line per test and "N passed, N failed". Exits with 77 when the lab cannot be set up. Needs
# root; its network is a namespace of its own. UIW_BUILD names the build folder. LAB_KEEP=1 keeps
# captures and outputs.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/interop/lab.sh
. "$HERE/lab.sh"
# shellcheck source=tests/interop/checks.sh
. "$HERE/checks.sh"
BUILD=$(readlink -f "${UIW_BUILD:-$HERE/../../build}")
UIW_PING=$BUILD/tools/uiw-ping
UIWX=$BUILD/tests/interop/uiwx
SIWX_BUILT=$BUILD/tests/interop/siwx
SIWX=/out/siwx # as the guest sees it
# For lab.sh.
LAB_AGENT=$BUILD/tests/interop/agent
SET=${1:-short}
PASSED=0
FAILED=0

skip() {
    echo "interop: skipped: $*"
    exit 77
}

# t NAME FUNCTION ARGUMENTS...: a function says in $WHY what went wrong.
t() {
    local name=$1
    shift
    WHY=
    : >"$LAB_DIR/uiw.out"
    : >"$LAB_DIR/siw.out"
    if "$@"; then
        echo "ok $name"
        PASSED=$((PASSED + 1))
        return
    fi
    echo "FAIL $name: $WHY"
    sed 's/^/   uiw| /' "$LAB_DIR/uiw.out" | head -n 15
    sed 's/^/   siw| /' "$LAB_DIR/siw.out" | head -n 15
    FAILED=$((FAILED + 1))
    # What the test left running must not disturb the next.
    stop_all
}

# ---- Sets of tests ----

pings() {
    local size=$1 count=$2 name="$1 octets, MTU $3, crc=$CRC"
    t "uiw-ping to rping, $name" captured ping_client "$size" "$count"
    t "rping to uiw-ping, $name" captured ping_server "$size" "$count"
}

# Requests of every kind, at odd sizes and offsets, up to 1 MB.
OPS=(
    send:1,send:17:3:2,send:1448,send:4097:1,send:65536,send:1048576
    sse:1,sse:4097:5,sse:70000
    ssg:3,ssg:100:7,ssg:4097,ssg:65536:11,ssg:1000000
    sinl:1,sinl:33:5,sinl:64:100:4
    write:1,write:17:3:9,write:1448:5,write:4097:1,write:65536,write:1048576,send:1
    write:65536:0:16:m,send:1
    wsg:3,wsg:100:7,wsg:4097,wsg:65536:11,wsg:1000000,send:1
    winl:1,winl:33:5,winl:64:100:4,send:1
    read:1,read:17:3:9,read:1448:5,read:4097:1,read:65536,read:1048576
    write:4096:64,sinv:64
    write:4096:64,ssinv:64
)

ops() {
    local list kind
    for list in "${OPS[@]}"; do
        kind=${list%%:*}
        [[ $list != *sinv* ]] || kind=${list#*,} kind=${kind%%:*}
        t "uiwx to siwx, $kind, MTU $1" x_uiw_client "$list" 1048576 -r 8 -R 1048576
        t "siwx to uiwx, $kind, MTU $1" x_siw_client "$list" 1048576 -r 8 -R 1048576
    done
    t "both ways at once, MTU $1" x_both_ways
}

faults() {
    # The verdicts are those of RFC 5040 section 4.8: layer, type, code.
    t "uiwx to siwx, Write with a wrong STag" x_uiw_fault write:64:0:1:k 1/1/00
    t "siwx to uiwx, Write with a wrong STag" x_siw_fault write:64:0:1:k 1/1/00
    t "uiwx to siwx, Write beyond the end" x_uiw_fault write:64:0:1:o 1/1/01
    t "siwx to uiwx, Write beyond the end" x_siw_fault write:64:0:1:o 1/1/01
    t "uiwx to siwx, Read with a wrong STag" x_uiw_fault read:64:0:1:k 0/1/00
    t "siwx to uiwx, Read with a wrong STag" x_siw_fault read:64:0:1:k 0/1/00
    t "uiwx to siwx, Read beyond the end" x_uiw_fault read:64:0:1:o 0/1/01
    t "siwx to uiwx, Read beyond the end" x_siw_fault read:64:0:1:o 0/1/01
    t "uiwx to siwx, rejected" x_uiw_rejected 100
    t "siwx to uiwx, rejected" x_siw_rejected 100
    t "uiwx to siwx, nobody listens" x_uiw_refused
    t "siwx to uiwx, nobody listens" x_siw_refused
    t "siwx killed" x_siw_killed
    t "uiwx killed" x_uiw_killed
    t "rping server killed, uiw-ping client" ping_client_bereaved
    t "rping client killed, uiw-ping server" ping_server_bereaved
    t "uiw-ping client interrupted" ping_client_interrupted
    t "three rpings at once to uiw-ping -P" ping_persistent 3
}

crc_off() {
    CRC=off
    pings 64 10 1500
    pings 65535 5 1500
    if [[ $LAB_KIND == uml ]]; then
        guest "echo 1 >/sys/module/siw/parameters/mpa_crc_required"
        CRC=on
        t "siw requires CRC, rping to uiw-ping with crc=off" with_crc_off captured ping_server 64 5
        guest "echo 0 >/sys/module/siw/parameters/mpa_crc_required"
    fi
    CRC=on
}

ip6() {
    local size
    for size in 64 4097 65535; do
        t "uiw-ping to rping, IPv6, $size octets, MTU $1" over_ip6 captured ping_client $size 5
        t "rping to uiw-ping, IPv6, $size octets, MTU $1" over_ip6 captured ping_server $size 5
    done
    t "uiwx to siwx, IPv6, write, MTU $1" over_ip6 x_uiw_client "${OPS[4]}" 1048576
    t "siwx to uiwx, IPv6, write, MTU $1" over_ip6 x_siw_client "${OPS[4]}" 1048576
    t "uiwx to siwx, IPv6, read, MTU $1" over_ip6 x_uiw_client "${OPS[7]}" 1048576
    t "siwx to uiwx, IPv6, read, MTU $1" over_ip6 x_siw_client "${OPS[7]}" 1048576
}

# The kernel's TCP at both ends.
sock() {
    local size list kind
    for size in 64 20000 65535; do
        t "uiw-ping to rping, sock, $size octets" over_sock captured ping_client $size 5
        t "rping to uiw-ping, sock, $size octets" over_sock captured ping_server $size 5
    done
    t "uiw-ping to rping, sock, IPv6" over_ip6 over_sock captured ping_client 4097 5
    t "rping to uiw-ping, sock, IPv6" over_ip6 over_sock captured ping_server 4097 5
    for list in "${OPS[@]}"; do
        kind=${list%%:*}
        t "uiwx to siwx, sock, $kind" over_sock x_uiw_client "$list" 1048576 -r 8 -R 1048576
        t "siwx to uiwx, sock, $kind" over_sock x_siw_client "$list" 1048576 -r 8 -R 1048576
    done
    t "both ways at once, sock" over_sock x_both_ways
    t "uiwx to siwx, sock, Write with a wrong STag" over_sock x_uiw_fault write:64:0:1:k 1/1/00
    t "siwx to uiwx, sock, Read beyond the end" over_sock x_siw_fault read:64:0:1:o 0/1/01
    t "uiwx to siwx, sock, rejected" over_sock x_uiw_rejected 100
    t "uiwx to siwx, sock, nobody listens" over_sock x_uiw_refused
    t "siwx killed, sock" over_sock x_siw_killed
    t "uiwx killed, sock" over_sock x_uiw_killed
    t "rping server killed, uiw-ping client, sock" over_sock ping_client_bereaved
    t "three rpings at once to uiw-ping -P, sock" over_sock ping_persistent 3
}

vlan() {
    t "uiw-ping to rping, VLAN, MTU $1" over_vlan captured ping_client 65535 5
    t "rping to uiw-ping, VLAN, MTU $1" over_vlan captured ping_server 65535 5
}

short_set() {
    CRC=on
    pings 20000 5 9000
    t "uiwx to siwx, write, MTU 9000" x_uiw_client "${OPS[4]}" 1048576
    t "siwx to uiwx, write, MTU 9000" x_siw_client "${OPS[4]}" 1048576
    lab_mtu 1500
    pings 64 10 1500
    pings 65535 5 1500
    ip6 1500
    vlan 1500
    crc_off
    ops 1500
    faults
    sock
}

full_set() {
    local mtu size kind
    CRC=on
    for mtu in 9000 1500; do
        lab_mtu $mtu
        for size in 64 65 1000 1408 1409 4096 16384 65535; do
            pings $size 5 $mtu
        done
        ops $mtu
        ip6 $mtu
        vlan $mtu
        for kind in write read wsg; do
            for size in 2097152 8388607 8388608; do
                t "uiwx to siwx, $kind of $size, MTU $mtu" \
                    x_uiw_client "$kind:$size,send:1" 8388608
                t "siwx to uiwx, $kind of $size, MTU $mtu" \
                    x_siw_client "$kind:$size,send:1" 8388608
            done
        done
        t "uiwx to siwx, 5000 Writes, MTU $mtu" x_uiw_client write:1500:3:5000:n,sync,send:1 65536
        t "siwx to uiwx, 5000 Writes, MTU $mtu" x_siw_client write:1500:3:5000:n,sync,send:1 65536
        t "uiwx to siwx, 500 Reads, MTU $mtu" x_uiw_client read:3000:3:500:n,sync,send:1 65536
        t "siwx to uiwx, 500 Reads, MTU $mtu" x_siw_client read:3000:3:500:n,sync,send:1 65536
    done
    crc_off
    faults
    sock
    t "uiwx to siwx, Send longer than the receive" x_uiw_fault send:65 1/2/02 -R 64
    t "siwx to uiwx, Send longer than the receive" x_siw_fault send:65 1/2/05 -R 64
    t "uiwx to siwx, Send without a receive" x_uiw_fault send:10 1/2/02 -r 0
    t "siwx to uiwx, Send without a receive" x_siw_fault send:10 1/2/02 -r 0
    t "uiwx to siwx, private data of 0" x_uiw_client send:1 4096 -P 0
    t "siwx to uiwx, private data of 0" x_siw_client send:1 4096 -P 0
    t "uiwx to siwx, private data of 248" x_uiw_client send:1 4096 -P 248
    t "siwx to uiwx, private data of 248" x_siw_client send:1 4096 -P 248
}

main() {
    local kind=uml
    case $SET in
    short | full) ;;
    vm)
        kind=vm
        PATIENCE=120
        ;;
    *)
        echo "usage: run.sh [short|full|vm]" >&2
        exit 2
        ;;
    esac
    [[ $(id -u) -eq 0 ]] || skip "needs root"
    local program
    for program in ip tcpdump tshark rping; do
        command -v $program >/dev/null || skip "$program is not installed"
    done
    [[ -x $SIWX_BUILT ]] || skip "siwx was not built (librdmacm-dev and libibverbs-dev are missing)"
    [[ -c /dev/net/tun ]] || skip "no /dev/net/tun"
    "$HERE/siw-$kind/siw-$kind" build || skip "the guest's kernel cannot be built here"
    trap lab_down EXIT
    trap 'exit 130' INT TERM
    lab_network 9000 || skip "no network namespace or bridge"
    lab_guest $kind || exit 1
    case $SET in
    short | vm) short_set ;;
    full) full_set ;;
    esac
    lab_guest_stop
    t "the guest's kernel has no complaint" guest_quiet
    echo "$PASSED passed, $FAILED failed"
    [[ $FAILED -eq 0 ]]
}

main
