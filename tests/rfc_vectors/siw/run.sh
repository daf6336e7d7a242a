#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh [ARGUMENT OF uiw-conform]...: the vectors against the kernel's siw driver, in the guest of
# tests/interop. The player uses the kernel's TCP on the bridge. Needs root; exits with 77 when the lab
# cannot be set up. UIW_BUILD names the build folder, LAB_CAPTURE a file for what passes on the bridge.
#
# run.sh --server [ARGUMENT]..., run.sh --client [ARGUMENT]...: the base set against rping there.
#
# run.sh --known: the faults that siw is known for are found, and nothing where it has none.
#
# run.sh --each FOLDER [ARGUMENT]...: file by file, since some of them panic the guest's kernel; it is
# booted again then. FOLDER gets ID.log of each, with every message, ID.host.log when it failed: the
# same once more with --host-order, ID.panic, and ID.dmesg when the driver answers nobody any more.
# table.py makes docs/siw-conformance.md of it.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/interop/lab.sh
. "$HERE/../../interop/lab.sh"
BUILD=$(readlink -f "${UIW_BUILD:-$HERE/../../../build}")
LAB_AGENT=$BUILD/tests/interop/agent
CONFORM=$BUILD/tools/conform/uiw-conform
SIWR=$BUILD/tests/rfc_vectors/siw/siwr

skip() {
    echo "siw conformance: skipped: $*"
    exit 77
}

# siw as Responder loses octets that come before it has taken the stream over: hence the pause.
conform() {
    in_ns "$CONFORM" --pause 100 --vectors "$HERE/.." "$@" "$GUEST_IP"
}

boot() {
    # The guest has a /tmp of its own, which may hide the build folder: it gets a copy.
    cp "$SIWR" "$LAB_DIR/out/siwr"
    lab_guest uml || exit 1
    guest "ip link set eth0 mtu 1500" >&2
    guest_start /out/siwr 7174
    RESPONDER=$GUEST_JOB
    guest_listens 7174
}

# What the kernel said last, when it is gone.
panicked() {
    sleep 0.3
    guest_alive && return 1
    sed -n '/Kernel panic/,$p' "$LAB_DIR/out/.console"
}

# A guest is a new world: numbers of commands begin again.
reboot() {
    lab_guest_stop
    rm -rf "$LAB_DIR/out"
    mkdir -p "$LAB_DIR/out/cmd" "$LAB_DIR/out/done"
    LAB_COMMANDS=0
    boot
}

# once FOLDER ID LOG [ARGUMENT]...
once() {
    local folder=$1 id=$2 log=$3 rc=0
    shift 3
    conform --format plain -v --id "$id" "$@" >"$folder/$log" 2>&1 || rc=$?
    # An answer may still be on its way to a kernel that will not stand it.
    if [[ $rc -ne 0 ]] && panicked >"$folder/$id.panic"; then
        reboot
        return $rc
    fi
    rm -f "$folder/$id.panic"
    return $rc
}

# What an earlier file did to the driver is not this one's fault.
lively() {
    grep -q -E "does not answer|needs a tested end|takes no TCP connection" "$1/$3" || return 0
    guest dmesg >"$1/$2.dmesg"
    reboot
    return 1
}

each() {
    local folder=$1 id failed=0
    shift
    mkdir -p "$folder"
    while read -r _ id _; do
        once "$folder" "$id" "$id.log" && continue
        lively "$folder" "$id" "$id.log" || { once "$folder" "$id" "$id.log" && continue; }
        failed=$((failed + 1))
        [[ -e $folder/$id.panic ]] || once "$folder" "$id" "$id.host.log" --host-order
    done < <("$CONFORM" --vectors "$HERE/.." --list "$@")
    echo "siw conformance: $failed files failed"
}

# rping serves one client, or is one, and ends; now and then it hangs.
rping_again() {
    guest_kill "$RESPONDER"
    guest_ask "sh while true; do timeout $1 rping $2 -p 7174; done >/dev/null 2>&1"
    RESPONDER=$GUEST_JOB
}

server() {
    rping_again 4 "-s -a $GUEST_IP"
    conform --base --gap 1500 "$@"
}

client() {
    rping_again 2 "-c -C 1 -a $SOCK_IP4"
    in_ns "$CONFORM" --listen --pause 100 --vectors "$HERE/.." "$@"
}

# judged WORD ID [ARGUMENT]...: the file has that result, and the reason has TEXT in it.
judged() {
    local word=$1 id=$2 text=$3 got
    shift 3
    got=$(conform --format plain --id "$id" "$@" | grep -E "^(pass|FAIL|should|skip) ")
    if [[ $got == "$word "* && $got == *"$text"* ]]; then
        echo "ok $id: $got"
    else
        echo "FAIL $id must be '$word' with '$text', is: $got"
        RC=1
    fi
}

known() {
    judged pass V001 req-pd4
    judged pass V040 fpdu-hello
    judged pass V077 readreq
    judged FAIL V005 "the Reply rejects"
    judged FAIL V095 "in host order: octets 11 00 03 00, must be 11 00 c0 00"
    judged pass V095 bad-stag --host-order
    judged FAIL V094 "Terminate 1/2/02" --host-order
    judged FAIL V154 "a Terminate 0/2/06" --host-order
    judged FAIL V105 "a Read Response of 8 octets"
    return $RC
}

[[ $(id -u) -eq 0 && -c /dev/net/tun ]] || skip "needs root and /dev/net/tun"
[[ -x $SIWR ]] || skip "siwr was not built (librdmacm-dev and libibverbs-dev are missing)"
"$HERE/../../interop/siw-uml/siw-uml" build >&2 || skip "the guest's kernel cannot be built here"
trap lab_down EXIT
trap 'exit 130' INT TERM
lab_network 1500 || skip "no network namespace or bridge"
in_ns sysctl -q -w net.ipv4.ip_local_port_range="10000 65000"
boot
[[ -z ${LAB_CAPTURE:-} ]] || capture_start "$LAB_CAPTURE"
RC=0
case ${1:-} in
--each | --known | --server | --client)
    COMMAND=${1#--}
    shift
    "$COMMAND" "$@" || RC=$?
    ;;
*) conform "$@" || RC=$? ;;
esac
capture_stop
if panicked >&2; then
    exit $RC
fi
guest_kill "$RESPONDER"
guest "dmesg" | grep -i -E "bug|warn|call trace" >&2
exit $RC
