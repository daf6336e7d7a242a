#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh PROGRAM: runs an example as server and client over shared memory. No root.
set -euo pipefail
name=/uiw-example-$$
out=$(mktemp)
server=
trap 'kill "$server" 2>/dev/null || true; rm -f "$out"' EXIT

UIW_DEVICE=shm:$name,ip=198.18.0.1/24 timeout 30 "$1" >"$out" &
server=$!
# The server says nothing before its client comes, so the client tries until it listens.
for try in {1..20}; do
    UIW_DEVICE=shm:$name,ip=198.18.0.2/24 timeout 30 "$1" 198.18.0.1 && break
    [[ $try -lt 20 ]] || exit 1
    sleep 0.2
done
wait "$server"
cat "$out"
grep -q 'the client wrote "hello over iWARP"' "$out"
