# SPDX-License-Identifier: MIT
# The lab, to be sourced: a network namespace with a bridge and two TAP devices, one for uiw and one
# for a guest that runs the kernel's siw driver.
#
#   uiw (198.18.7.2) -- uiw0 -- bridge -- gst0 -- eth0, siw0 (198.18.7.1) in the guest
#   (fd00:0:0:7::2)                               (fd00:0:0:7::1)
#   with sock:  the kernel (198.18.7.3, fd00:0:0:7::3) on the bridge itself
#   when asked: gst1 -- eth0, siw0 (198.18.7.4, fd00:0:0:7::4) in a second guest; see on_second()
#
# Everything it makes is in $LAB_DIR and in namespace $NS; lab_down() removes both and may be called at
# any time. Every wait has a limit.
LAB_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
GUEST_IP4=198.18.7.1
UIW_IP4=198.18.7.2
GUEST_IP6=fd00:0:0:7::1
UIW_IP6=fd00:0:0:7::2
# The kernel's own, for devices of kind sock; see over_sock().
SOCK_IP4=198.18.7.3
SOCK_IP6=fd00:0:0:7::3
# On VLAN 7, where the guest has another siw.
GUEST_IP_VLAN=198.18.8.1
UIW_IP_VLAN=198.18.8.2
SECOND_IP4=198.18.7.4
SECOND_IP6=fd00:0:0:7::4
SECOND_IP_VLAN=198.18.8.4
# What the tests connect to; see over_ip6() and over_vlan().
GUEST_IP=$GUEST_IP4
UIW_IP=$UIW_IP4
NS=uiwi-$$
LAB_DIR=
LAB_KIND=uml
LAB_CAPTURE_PID=
LAB_CAPTURE_FILE=
# The frame that ends a capture: to the port of "discard", where nobody listens.
CAPTURE_PORT=9
CAPTURE_END=lab-capture-end
# By guest: 0, or 1 within on_second().
LAB_GUEST=0
LAB_OUT=
LAB_GUEST_PID=("" "")
LAB_COMMANDS=(0 0)
# The program that agent.c builds to; the guest sees this machine's files.
LAB_AGENT=${LAB_AGENT:-}
# A guest that runs longer than this is stuck.
LAB_LIMIT=${LAB_LIMIT:-2400}

lab_say() {
    echo "lab: $*" >&2
}

# lab_until SECONDS COMMAND...: until the command succeeds.
lab_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || return 1
        sleep 0.02
    done
}

in_ns() {
    ip netns exec "$NS" "$@"
}

# lab_network [MTU]: namespace, bridge and TAPs; 9000 by default, and each end may use less.
lab_network() {
    local mtu=${1:-9000} tap
    LAB_DIR=$(mktemp -d)
    LAB_OUT=$LAB_DIR/out
    mkdir -p "$LAB_DIR"/out{,1}/{cmd,done}
    ip netns add "$NS" || return 1
    in_ns sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    ip -n "$NS" link set lo up
    ip -n "$NS" link add br0 mtu "$mtu" type bridge stp_state 0 forward_delay 0 \
        mcast_snooping 0 || return 1
    ip -n "$NS" link set br0 up
    in_ns sysctl -q -w net.ipv6.conf.br0.disable_ipv6=0
    ip -n "$NS" addr add $SOCK_IP4/24 dev br0
    ip -n "$NS" addr add $SOCK_IP6/64 dev br0 nodad || return 1
    for tap in uiw0 gst0 gst1; do
        ip -n "$NS" tuntap add "$tap" mode tap || return 1
        ip -n "$NS" link set "$tap" mtu "$mtu" master br0 up
    done
}

# lab_mtu N: for what is opened from now on; the guest follows at once. Begins with 9000, and a guest
# of siw-uml can only go down.
lab_mtu() {
    ip -n "$NS" link set uiw0 mtu "$1"
    guest "ip link set eth0 mtu $1"
}

guest_alive() {
    kill -0 "${LAB_GUEST_PID[LAB_GUEST]}" 2>/dev/null
}

guest_ready() {
    [[ -e $LAB_OUT/ready ]] || ! guest_alive
}

# lab_guest KIND [ARGUMENTS OF siw-uml OR siw-vm]...: boots a guest, uml or vm.
lab_guest() {
    LAB_KIND=$1
    shift
    # The guest has a /tmp of its own, which may hide the build folder: it gets copies.
    cp "$LAB_AGENT" "$LAB_OUT/agent"
    [[ -z ${SIWX_BUILT:-} ]] || cp "$SIWX_BUILT" "$LAB_OUT/siwx"
    printf '%s\n' "GUEST_IP=$GUEST_IP4" "GUEST_IP6=$GUEST_IP6" \
        "GUEST_IP_VLAN=$GUEST_IP_VLAN" MTU=9000 "AGENT=/out/agent" >"$LAB_OUT/lab.env"
    "$LAB_HERE/siw-$LAB_KIND/siw-$LAB_KIND" run -t "$LAB_LIMIT" -o "$LAB_OUT" \
        -n "$NS:gst$LAB_GUEST:tap,mtu=9000" "$@" "$LAB_HERE/guest.sh" \
        >"$LAB_OUT/guest.log" 2>&1 &
    LAB_GUEST_PID[LAB_GUEST]=$!
    lab_until 300 guest_ready
    guest_alive && [[ -e $LAB_OUT/ready ]] && return 0
    cat "$LAB_OUT/guest.log" >&2
    lab_say "the guest did not come up"
    return 1
}

# guest_ask COMMAND: begins one of the agent's commands (see agent.c); $GUEST_JOB is its number then.
guest_ask() {
    GUEST_JOB=$((++LAB_COMMANDS[LAB_GUEST]))
    printf '%s\n' "$1" >"$LAB_OUT/cmd.new"
    mv "$LAB_OUT/cmd.new" "$LAB_OUT/cmd/$GUEST_JOB"
}

# guest_start PROGRAM ARGUMENTS...: without spaces in them.
guest_start() {
    guest_ask "run $*"
}

# guest_output JOB: what it printed.
guest_output() {
    cat "$LAB_OUT/done/$1".{out,err} 2>/dev/null
}

guest_finished() {
    [[ -e $LAB_OUT/done/$1.rc ]] || ! guest_alive
}

# guest_wait JOB [SECONDS]: its status; 124 when it does not end.
guest_wait() {
    local rc=125
    lab_until "${2:-30}" guest_finished "$1" || return 124
    [[ ! -e $LAB_OUT/done/$1.rc ]] || read -r rc <"$LAB_OUT/done/$1.rc"
    return "$rc"
}

# guest COMMAND: has a shell there carry it out, prints its output, returns its status.
guest() {
    local rc=0 job
    guest_ask "sh $1"
    job=$GUEST_JOB
    guest_wait "$job" || rc=$?
    guest_output "$job"
    return $rc
}

# guest_kill JOB: ends a command that is still running, with all that it started.
guest_kill() {
    guest_finished "$1" && return 0
    guest_ask "kill $1"
    guest_wait "$1" 10 || true
}

# guest_listens PORT: waits until something in the guest does.
guest_listens() {
    guest_ask "listens $1"
    guest_wait "$GUEST_JOB"
}

# over_ip6 COMMAND...
over_ip6() {
    local GUEST_IP=$GUEST_IP6 UIW_IP=$UIW_IP6
    "$@"
}

# over_sock COMMAND...: also within over_ip6.
over_sock() {
    local UIW_IP=$SOCK_IP4
    [[ $GUEST_IP != "$GUEST_IP6" ]] || UIW_IP=$SOCK_IP6
    "$@"
}

# over_vlan COMMAND...
over_vlan() {
    local GUEST_IP=$GUEST_IP_VLAN UIW_IP=$UIW_IP_VLAN
    "$@"
}

# on_second COMMAND...: the guest_ functions and lab_guest itself are about the second guest.
on_second() {
    local LAB_GUEST=1 LAB_OUT=$LAB_DIR/out1
    local GUEST_IP4=$SECOND_IP4 GUEST_IP6=$SECOND_IP6 GUEST_IP_VLAN=$SECOND_IP_VLAN
    local GUEST_IP=$SECOND_IP4
    "$@"
}

# uiw_device [KEY=VALUE]...: the device string for programs in the lab.
uiw_device() {
    local IFS=,
    if [[ $UIW_IP == "$SOCK_IP4" || $UIW_IP == "$SOCK_IP6" ]]; then
        echo "sock:$UIW_IP${*:+,$*}"
        return
    fi
    if [[ $UIW_IP == "$UIW_IP_VLAN" ]]; then
        echo "tap:uiw0,ip=$UIW_IP/24,vlan=7${*:+,$*}"
        return
    fi
    echo "tap:uiw0,ip=$UIW_IP4/24,ip=$UIW_IP6/64,mac=02:00:00:00:00:02${*:+,$*}"
}

# capture_start FILE: what passes on the guest's side of the bridge. In immediate mode each frame takes
# as much of the buffer as the longest could, 128 KB with what the kernel rounds up: room for 1000.
capture_start() {
    LAB_CAPTURE_FILE=$1
    # Not the last one's log: it may be read before the shell below opens its own.
    rm -f "$LAB_DIR/tcpdump.log"
    ip netns exec "$NS" tcpdump -i gst0 -U -n -s 66000 -B 131072 --immediate-mode -w "$1" \
        "tcp or udp port $CAPTURE_PORT or vlan" 2>"$LAB_DIR/tcpdump.log" &
    LAB_CAPTURE_PID=$!
    lab_until 10 grep -qs 'listening on' "$LAB_DIR/tcpdump.log"
}

# tcpdump drops what it has not yet read when it is ended: what came before this frame is in the file
# once the frame itself is.
capture_marked() {
    in_ns bash -c "echo $CAPTURE_END >/dev/udp/$GUEST_IP4/$CAPTURE_PORT" 2>/dev/null
    tail -c 4096 "$LAB_CAPTURE_FILE" | grep -qa $CAPTURE_END
}

# False when the file does not hold all that passed.
capture_stop() {
    local complete=0
    [[ -n $LAB_CAPTURE_PID ]] || return 0
    ! guest_alive || lab_until 10 capture_marked || complete=1
    kill "$LAB_CAPTURE_PID" 2>/dev/null
    wait "$LAB_CAPTURE_PID" 2>/dev/null
    LAB_CAPTURE_PID=
    grep -qx '0 packets dropped by kernel' "$LAB_DIR/tcpdump.log" || complete=1
    return $complete
}

# What was started in the namespace; the guest is one of them.
lab_kill_all() {
    ip netns pids "$NS" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
}

# Ends the guest, in good order if it still answers.
lab_guest_stop() {
    [[ -n ${LAB_GUEST_PID[LAB_GUEST]} ]] || return 0
    guest_ask stop
    if ! lab_until 20 eval '! guest_alive'; then
        lab_say "the guest does not stop, killing it"
        lab_kill_all
        lab_until 5 eval '! guest_alive' ||
            kill -KILL "${LAB_GUEST_PID[LAB_GUEST]}" 2>/dev/null
    fi
    wait "${LAB_GUEST_PID[LAB_GUEST]}" 2>/dev/null
    LAB_GUEST_PID[LAB_GUEST]=
}

lab_down() {
    capture_stop
    [[ -z $LAB_DIR ]] || on_second lab_guest_stop
    [[ -z $LAB_DIR ]] || lab_guest_stop
    lab_kill_all
    ip netns del "$NS" 2>/dev/null
    [[ -z $LAB_DIR || -n ${LAB_KEEP:-} ]] || rm -rf "$LAB_DIR"
    [[ -z ${LAB_KEEP:-} ]] || lab_say "kept $LAB_DIR"
    LAB_DIR=
}
