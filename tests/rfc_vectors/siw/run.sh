#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh [ARGUMENT OF uiw-conform]...: the vectors against the kernel's siw driver, in the guest of
# tests/interop. The player uses the kernel's TCP on the bridge. Needs root; exits with 77 when the lab
# cannot be set up. UIW_BUILD names the build folder, LAB_CAPTURE a file for what passes on the bridge.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/interop/lab.sh
. "$HERE/../../interop/lab.sh"
BUILD=$(readlink -f "${UIW_BUILD:-$HERE/../../../build}")
LAB_AGENT=$BUILD/tests/interop/agent
SIWR=$BUILD/tests/rfc_vectors/siw/siwr

skip() {
    echo "siw conformance: skipped: $*"
    exit 77
}

[[ $(id -u) -eq 0 && -c /dev/net/tun ]] || skip "needs root and /dev/net/tun"
[[ -x $SIWR ]] || skip "siwr was not built (librdmacm-dev and libibverbs-dev are missing)"
"$HERE/../../interop/siw-uml/siw-uml" build >&2 || skip "the guest's kernel cannot be built here"
trap lab_down EXIT
trap 'exit 130' INT TERM
lab_network 1500 || skip "no network namespace or bridge"
ip -n "$NS" addr add 198.18.7.3/24 dev br0
in_ns sysctl -q -w net.ipv4.ip_local_port_range="10000 65000"
# The guest has a /tmp of its own, which may hide the build folder: it gets a copy.
cp "$SIWR" "$LAB_DIR/out/siwr"
lab_guest uml || exit 1
guest "ip link set eth0 mtu 1500" >&2
guest_start /out/siwr 7174
RESPONDER=$GUEST_JOB
guest_listens 7174
[[ -z ${LAB_CAPTURE:-} ]] || capture_start "$LAB_CAPTURE"
in_ns "$BUILD/tools/conform/uiw-conform" --pause 100 --vectors "$HERE/.." "$@" "$GUEST_IP"
RC=$?
capture_stop
# For looking into the guest before it goes.
[[ -z ${LAB_AFTER:-} ]] || guest "$LAB_AFTER" >&2
guest_kill "$RESPONDER"
guest "dmesg" | grep -i -E "bug|warn|call trace" >&2
exit $RC
