#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh PROGRAM: runs an example as server and client, over shared memory and over sockets. No root.
set -euo pipefail
out=$(mktemp)
server=
trap 'kill "$server" 2>/dev/null || true; rm -f "$out"' EXIT

# both PROGRAM ADDRESS DEVICE-OF-SERVER DEVICE-OF-CLIENT
both() {
    UIW_DEVICE=$3 timeout 30 "$1" >"$out" &
    server=$!
    # The server says nothing before its client comes, so the client tries until it listens.
    for try in {1..20}; do
        UIW_DEVICE=$4 timeout 30 "$1" "$2" && break
        [[ $try -lt 20 ]] || exit 1
        sleep 0.2
    done
    wait "$server"
    cat "$out"
    grep -q 'the client wrote "hello over iWARP"' "$out"
}

net=shm:/uiw-example-$$
both "$1" 198.18.0.1 $net,ip=198.18.0.1/24 $net,ip=198.18.0.2/24
# The port is the program's; the address is one that no other test has.
ip=127.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1))
both "$1" $ip sock:$ip sock:
