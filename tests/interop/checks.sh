# SPDX-License-Identifier: MIT
# The tests of run.sh, one function each: true, or false with the cause in $WHY. Sourced by run.sh,
# after lab.sh. What the uiw side printed is in $LAB_DIR/uiw.out, the siw side in $LAB_DIR/siw.out.
CRC=on
PING_PORT=7174
X_PORT=7180
UIW_JOB=
SIW_JOB=
# Seconds that a test may take; an emulated guest is slow.
PATIENCE=40

because() {
    WHY=$*
    return 1
}

# ---- Programs on both sides ----

# Takes the place of the shell that calls it, so that a signal to it reaches the program.
uiw_exec() {
    exec ip netns exec "$NS" env "UIW_DEVICE=$(uiw_device "${UIW_KEYS:-crc=$CRC}")" \
        timeout -k 2 $PATIENCE "$@" >>"$LAB_DIR/uiw.out" 2>&1
}

uiw_run() {
    (uiw_exec "$@")
}

# uiw_serve COMMAND...: starts it and waits until it listens.
uiw_serve() {
    uiw_exec "$@" &
    UIW_JOB=$!
    lab_until 10 uiw_serves
    kill -0 "$UIW_JOB" 2>/dev/null || because "the uiw side does not listen"
}

uiw_serves() {
    grep -q listening "$LAB_DIR/uiw.out" || ! kill -0 "$UIW_JOB" 2>/dev/null
}

uiw_done() {
    local rc=0
    wait $UIW_JOB || rc=$?
    UIW_JOB=
    return $rc
}

# siw_start COMMAND: starts it in the guest.
siw_start() {
    guest_start "$1"
    SIW_JOB=$GUEST_JOB
}

# siw_serve PORT COMMAND
siw_serve() {
    siw_start "$2"
    guest_listens "$1" || because "the siw side does not listen"
}

siw_done() {
    local rc=0
    guest_wait "$SIW_JOB" $PATIENCE || rc=$?
    [[ $rc -ne 124 ]] || guest_kill "$SIW_JOB"
    guest_output "$SIW_JOB" >"$LAB_DIR/siw.out"
    SIW_JOB=
    return $rc
}

stop_all() {
    [[ -z $SIW_JOB ]] || guest_kill "$SIW_JOB"
    [[ -z $UIW_JOB ]] || kill "$UIW_JOB" 2>/dev/null
    [[ -z $UIW_JOB ]] || wait "$UIW_JOB" 2>/dev/null
    capture_stop
    SIW_JOB=
    UIW_JOB=
}

# both_done WANT_UIW: the status of each side.
both_done() {
    local uiw=0 siw=0
    uiw_done || uiw=$?
    siw_done || siw=$?
    [[ $uiw -eq 0 ]] || because "the uiw side ended with $uiw" || return 1
    [[ $siw -eq 0 ]] || because "the siw side ended with $siw"
}

has() {
    grep -qE -e "$2" "$LAB_DIR/$1.out" || because "the $1 side does not say '$2'"
}

# ---- Captures ----

# captured FUNCTION SIZE COUNT: a ping test, with what it sent looked at by tshark.
captured() {
    local file=$LAB_DIR/ping.pcap
    capture_start "$file" || because "no capture" || return 1
    "$@" || return 1
    capture_stop || because "the capture lacks frames: $(tail -n 1 "$LAB_DIR/tcpdump.log")" || return 1
    decode "$file" >"$LAB_DIR/decoded"
    decoded_well || return 1
    # Per ping: two Sends each way, a Read, a Write.
    decoded_count 'Send' $((4 * $3)) && decoded_count 'Read Request' "$3" &&
        decoded_count 'Read Response' "$3" && decoded_count 'Write' "$3"
}

# Whole messages by kind, and all that tshark has to say against them. Protocols above iWARP are off,
# because they take small Sends for their own. Writes of nothing (a ULPDU of 14 octets) are how uiw
# makes siw look at its socket once more; the programs know nothing of them.
decode() {
    tshark -n -r "$1" -o tcp.reassemble_out_of_order:TRUE -o tcp.try_heuristic_first:TRUE \
        --disable-protocol rpcordma --disable-protocol smb_direct -V 2>/dev/null | awk '
        /Last flag: / { last = /True/ }
        /ULPDU [Ll]ength: / { length_ = $(NF - 1) + 0 }
        /OpCode: / && last {
            sub(/.*OpCode: /, "")
            sub(/ \(.*/, "")
            if ($0 != "Write" || length_ != 14)
                n[$0]++
            last = 0
        }
        /Malformed|Bad CRC32|Bad MPA/ { print "fault: " $0 }
        /Good CRC32/ { good++ }
        END { for (k in n) print n[k], k; print good + 0, "good CRCs" }'
}

decoded_well() {
    if grep -q '^fault' "$LAB_DIR/decoded"; then
        because "tshark: $(grep -c '^fault' "$LAB_DIR/decoded") faults," \
            "$(grep -m 1 '^fault' "$LAB_DIR/decoded")"
        return 1
    fi
    if [[ $CRC == on ]]; then
        ! grep -q '^0 good CRCs' "$LAB_DIR/decoded" || because "no CRC in the capture"
    else
        grep -q '^0 good CRCs' "$LAB_DIR/decoded" || because "CRC in the capture, although off"
    fi
}

decoded_count() {
    grep -qx "$2 $1" "$LAB_DIR/decoded" ||
        because "tshark: not $2 $1 but: $(tr '\n' ';' <"$LAB_DIR/decoded")"
}

# siw as the client asks for CRC when it requires it, whatever the other end would like.
with_crc_off() {
    UIW_KEYS=crc=off "$@"
}

# ---- uiw-ping and rping ----

ping_client() {
    siw_serve $PING_PORT "rping -s -a $GUEST_IP -S $1 -v" || return 1
    uiw_run "$UIW_PING" -c --timeout $PATIENCE -a "$GUEST_IP" -S "$1" -C "$2" -V ||
        because "uiw-ping ended with $?" || return 1
    siw_done || because "rping ended with $?" || return 1
    has uiw "$2 pings, $2 ok" && ping_lines siw "$2"
}

ping_server() {
    uiw_serve "$UIW_PING" -s -v || return 1
    siw_start "rping -c -a $UIW_IP -S $1 -C $2 -V -v"
    both_done && ping_lines siw "$2" && ping_lines uiw "$2"
}

ping_lines() {
    local n
    n=$(grep -c 'ping data: rdma-ping-' "$LAB_DIR/$1.out")
    [[ $n -eq $2 ]] || because "the $1 side shows $n pings, not $2"
}

# One line about it on the error channel, and status 1.
told_once() {
    local n
    n=$(grep -cE '^uiw-ping: .*(gone|lost|reset|closed|answer)' "$LAB_DIR/uiw.out")
    [[ $1 -eq 1 && $n -eq 1 ]] || because "uiw-ping ended with $1 and $n lines about it"
}

some_pings() {
    [[ $(grep -c 'ping data: rdma-ping-' "$1") -ge 3 ]]
}

ping_client_bereaved() {
    local rc=0
    siw_serve $PING_PORT "rping -s -a $GUEST_IP" || return 1
    uiw_exec "$UIW_PING" -c -a "$GUEST_IP" -v &
    UIW_JOB=$!
    lab_until 10 some_pings "$LAB_DIR/uiw.out" || because "no pings" || return 1
    guest_kill "$SIW_JOB"
    SIW_JOB=
    uiw_done || rc=$?
    told_once $rc
}

ping_server_bereaved() {
    local rc=0
    uiw_serve "$UIW_PING" -s -v || return 1
    siw_start "rping -c -a $UIW_IP"
    lab_until 10 some_pings "$LAB_DIR/uiw.out" || because "no pings" || return 1
    guest_kill "$SIW_JOB"
    SIW_JOB=
    uiw_done || rc=$?
    # It may also have died between two pings; then all was in good order.
    [[ $rc -eq 0 ]] || told_once $rc
}

ping_client_interrupted() {
    siw_serve $PING_PORT "rping -s -a $GUEST_IP" || return 1
    uiw_run timeout -s INT 1 "$UIW_PING" -c -a "$GUEST_IP"
    siw_done || because "rping ended with $?" || return 1
    has uiw 'pings, [0-9]+ ok; round trip min'
}

ping_persistent() {
    local jobs=() job i bad=0
    uiw_serve "$UIW_PING" -s -P || return 1
    for ((i = 0; i < $1; i++)); do
        siw_start "rping -c -a $UIW_IP -C 20 -V -S $((64 + 100 * i))"
        jobs+=("$SIW_JOB")
    done
    for job in "${jobs[@]}"; do
        guest_wait "$job" $PATIENCE || bad=$((bad + 1))
    done
    SIW_JOB=
    # The last one's end may still be on its way when its rping has gone.
    for ((i = 0; i < 50; i++)); do
        [[ $(grep -c ': 20 pings' "$LAB_DIR/uiw.out") -lt $1 ]] || break
        sleep 0.1
    done
    kill $UIW_JOB
    uiw_done
    [[ $bad -eq 0 ]] || because "$bad of $1 rpings failed" || return 1
    [[ $(grep -c ': 20 pings' "$LAB_DIR/uiw.out") -eq $1 ]] || because "uiw-ping missed pings"
}

# ---- uiwx and siwx ----

# Both buffers and all that was received must be what the model says.
as_modelled() {
    local client=$1 server=$2 model
    shift 2
    model=$("$UIWX" -m -c "$@")
    grep -qxF "$(grep client: <<<"$model")" "$LAB_DIR/$client.out" ||
        because "wrong data at the client, not $(grep client: <<<"$model")" || return 1
    grep -qxF "$(grep server: <<<"$model")" "$LAB_DIR/$server.out" ||
        because "wrong data at the server, not $(grep server: <<<"$model")" || return 1
    ! grep -qE 'requests_bad=[1-9]' "$LAB_DIR/$client.out" || because "requests failed"
}

# siw may not notice what arrives within its accept until more comes, because it sends the Reply before
# it takes over the socket; and when the next thing is the end, it drops what it did not read. uiw
# sends something more after a while, so a client must not close at once.
LINGER=sleep:150

# x_uiw_client OPS BUFFER [OPTIONS OF BOTH SIDES]...
x_uiw_client() {
    local ops=$1 buffer=$2
    shift 2
    siw_serve $X_PORT "$SIWX -s -a $GUEST_IP -p $X_PORT -b $buffer $*" || return 1
    uiw_run "$UIWX" -c -a "$GUEST_IP" -p $X_PORT -b "$buffer" -o "$ops,$LINGER" "$@" ||
        because "uiwx ended with $?" || return 1
    siw_done || because "siwx ended with $?" || return 1
    as_modelled uiw siw -o "$ops" -b "$buffer"
}

x_siw_client() {
    local ops=$1 buffer=$2
    shift 2
    uiw_serve "$UIWX" -s -a "$UIW_IP" -p $X_PORT -b "$buffer" "$@" || return 1
    siw_start "$SIWX -c -a $UIW_IP -p $X_PORT -b $buffer -o $ops $*"
    both_done || return 1
    as_modelled siw uiw -o "$ops" -b "$buffer" || return 1
    [[ $ops != *sinv* ]] || has uiw 'invalidated the buffer' || return 1
    [[ $ops != *sse* && $ops != *ssinv* ]] || has uiw 'was solicited'
}

# Both sides send and write, in disjoint halves of the buffers, and end when they have all.
x_both_ways() {
    local mine=write:30000:0:20:n,send:3000:0:20:n,sync,recv:20
    local theirs=write:30000:500000:20:n,send:3000:500000:20:n,sync,recv:20
    siw_serve $X_PORT "$SIWX -s -a $GUEST_IP -p $X_PORT -r 20 -o recv:1,$theirs" || return 1
    uiw_run "$UIWX" -c -a "$GUEST_IP" -p $X_PORT -r 20 -o "$mine" ||
        because "uiwx ended with $?" || return 1
    siw_done || because "siwx ended with $?" || return 1
    has uiw 'requests_ok=40 requests_bad=0 receives_ok=20 ' &&
        has siw 'requests_ok=40 requests_bad=0 receives_ok=20 '
}

# x_uiw_fault OPS VERDICT: siw has to refuse, and uiw to understand its Terminate.
x_uiw_fault() {
    local ops=$1 verdict=$2
    shift 2
    siw_serve $X_PORT "$SIWX -s -a $GUEST_IP -p $X_PORT $*" || return 1
    uiw_run "$UIWX" -c -a "$GUEST_IP" -p $X_PORT -o "$ops,sleep:3000"
    siw_done
    has siw 'event disconnected' && has uiw "disconnected: peer-terminate \[$verdict\]"
}

# x_siw_fault OPS VERDICT: uiw has to refuse, and siw to see the end of the connection.
x_siw_fault() {
    local ops=$1 verdict=$2
    shift 2
    uiw_serve "$UIWX" -s -a "$UIW_IP" -p $X_PORT "$@" || return 1
    siw_start "$SIWX -c -a $UIW_IP -p $X_PORT -o $ops,sleep:3000"
    uiw_done
    siw_done
    has siw 'event disconnected' && has uiw "disconnected: fault \[$verdict\]" || return 1
    [[ $ops != read* ]] || has siw 'request 1 failed'
}

x_uiw_rejected() {
    siw_serve $X_PORT "$SIWX -s -a $GUEST_IP -p $X_PORT -j $1" || return 1
    uiw_run "$UIWX" -c -a "$GUEST_IP" -p $X_PORT -P 60
    siw_done
    has siw "private data: 60 octets, right" && has uiw 'event rejected' &&
        has uiw "private data: $1 octets, right"
}

x_siw_rejected() {
    uiw_serve "$UIWX" -s -a "$UIW_IP" -p $X_PORT -j "$1" || return 1
    siw_start "$SIWX -c -a $UIW_IP -p $X_PORT -P 60"
    uiw_done
    siw_done
    has uiw "private data: 60 octets, right" && has siw 'event rejected' &&
        has siw "private data: $1 octets, right"
}

x_uiw_refused() {
    uiw_run "$UIW_PING" -c -a "$GUEST_IP" -p 7999 && because "status 0" && return 1
    has uiw "^uiw-ping: $GUEST_IP:7999: .*refused"
}

# The listener is elsewhere, so that somebody answers for the address.
x_siw_refused() {
    uiw_serve "$UIWX" -s -a "$UIW_IP" -p $X_PORT -t 3000 || return 1
    siw_start "$SIWX -c -a $UIW_IP -p 7999"
    siw_done && because "status 0" && return 1
    uiw_done
    has siw 'refused|event (rejected|RDMA_CM_EVENT_)'
}

x_siw_killed() {
    uiw_serve "$UIWX" -s -a "$UIW_IP" -p $X_PORT || return 1
    siw_start "$SIWX -c -a $UIW_IP -p $X_PORT -o send:64,write:4096,kill"
    uiw_done || because "uiwx ended with $?" || return 1
    siw_done
    has uiw 'event disconnected: (closed|reset|lost)' && has uiw 'receives_ok=1 '
}

# Nobody closes for a killed user-space stack: its peer learns it when it has something to send.
x_uiw_killed() {
    siw_serve $X_PORT "$SIWX -s -a $GUEST_IP -p $X_PORT -o recv:1,sleep:300,send:64:0:1:n" ||
        return 1
    # The shell's message about the killed program is no news.
    { uiw_run "$UIWX" -c -a "$GUEST_IP" -p $X_PORT -o send:64,kill; } 2>/dev/null
    siw_done
    has siw 'event disconnected'
}

guest_quiet() {
    [[ -e $LAB_DIR/out/dmesg ]] || because "the guest did not end in good order" || return 1
    cp "$LAB_DIR/out/dmesg" "$LAB_DIR/siw.out"
    ! grep -qE 'BUG|WARNING|Oops|general protection|refcount|leak' "$LAB_DIR/out/dmesg" ||
        because "its log has a warning"
}
