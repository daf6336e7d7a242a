# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For check_*.sh, to be sourced.

# server_is_up PID LOG: waits until the server says in its log that it listens; false: it has ended, or is too slow.
server_is_up() {
    for _ in {1..500}; do
        grep -q 'listening on' "$2" && return 0
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.02
    done
    return 1
}
