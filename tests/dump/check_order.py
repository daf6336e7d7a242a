#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_order.py UIW-DUMP CAPTURES: lines are in the order of the frames also where octets had to wait
for what came before them; and a filter takes the same messages, FPDUs and violations everywhere."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import check_fields as cf
import dumptool as t
import wire as w

faults = []


def expect(ok, what):
    if not ok:
        faults.append(what)


def send(msn, data=b"octets of a message"):
    ulpdu = b"\x41\x43" + bytes(8) + msn.to_bytes(4, "big") + bytes(4) + data
    return len(ulpdu).to_bytes(2, "big") + ulpdu + bytes(-(2 + len(ulpdu)) % 4 + 4)


def flow(port, begun):
    """A connection; begun: its set-up is not in the capture."""
    f = w.Flow(port, 7999)
    if not begun:
        f.open()
        f.add(0, cf.set_up(False, 0, 0))
        f.add(1, cf.set_up(True, 0, 0))
    return f


def in_turn(path, *flows):
    """The flows' packets by turns, 10 us apart. Returns (frame, port) of those with messages."""
    packets, left, carry = [], [list(f.packets) for f in flows], []
    while any(left):
        for part in left:
            if part:
                p = part.pop(0)
                p["ns"] = 10**18 + len(packets) * 10000
                packets.append(p)
                if p["data"][2:4] in (b"\x41\x43", b"\xc1\x40"):
                    carry.append((len(packets), p["sport"]))
    w.write(path, packets)
    return carry


def messages(objs):
    port = {o["conn"]: int(o["client"].rsplit(":", 1)[1]) for o in t.of_kind(objs, "connection")}
    return [(m["frame"], port[m["conn"]]) for m in t.of_kind(objs, "message")]


def check_hole(tool, path):
    """A segment is missing, and acknowledged: what waited behind it is told in its place."""
    a, b = flow(30001, False), flow(30002, False)
    for i in range(1, 1200):
        a.add(0, send(i))
        if i == 10:
            a.packets.pop()
        a.add(1)
        b.add(0, send(i))
        b.add(1)
    want = in_turn(path, a, b)
    objs = t.run(tool, path)
    got = messages(objs)
    expect(got == want, f"hole: {len(got)} messages for {len(want)}, or in another order")
    order = [o["frame"] for o in objs if o["kind"] in ("message", "gap", "setup")]
    expect(order == sorted(order), "hole: other lines are out of order")
    expect({g["reason"] for g in t.of_kind(objs, "gap")} == {"capture", "sync"}, "hole: gaps")


def check_search(tool, path):
    """Mid-stream: the boundary is believed in only after other connections told a lot."""
    a, b = flow(30001, True), flow(30002, False)
    for i in range(1, 8):
        a.add(0, b"\0\x22\xc1\x40" + (77 * i).to_bytes(12, "big") + bytes(20) + b"\1\2\3\4")
        for _ in range(100):
            a.add(1)
    for i in range(1, 600):
        b.add(0, send(i))
    want = in_turn(path, a, b)
    got = messages(t.run(tool, path))
    expect(got == want, f"search: {len(got)} messages for {len(want)}, or in another order")


def check_stuck(tool, path):
    """A stream that never says what it is holds the others up no longer than the bound."""
    a, b = flow(30001, True), flow(30002, False)
    a.add(0, bytes(60))
    n = 40000
    for i in range(1, n + 1):
        b.add(0, send(i))
    in_turn(path, a, b)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    out = subprocess.run([tool, "--json", path], capture_output=True, timeout=120, check=True).stdout
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    got = [o for o in map(json.loads, out.splitlines()) if o["kind"] == "message"]
    expect([m["msn"] for m in got] == list(range(1, n + 1)), "stuck: messages are lost")
    with open(tool, "rb") as f:
        most = 400000 if b"__asan_init" in f.read() else 80000
    expect(memory < max(most, before + 1), f"stuck: {memory} kB")


def check_watched(tool, path):
    """From standard input nothing waits above a second; what comes after that says so."""
    a, b = flow(30001, True), flow(30002, False)
    one = b"\0\x26\x41\x43" + bytes(8) + (7).to_bytes(4, "big") + bytes(4 + 20 + 4)
    a.add(0, one[:30])
    for i in range(1, 301):
        b.add(0, send(i))
    first, a.packets = a.packets + b.packets[:-1], []
    a.ns = b.ns + 10000
    a.add(0, one[30:] + one[:15] + b"\x08" + one[16:] + send(9))
    w.write(path, first + b.packets[-1:] + a.packets)
    with open(path, "rb") as f:
        data = f.read()
    cut = len(data) - sum(16 + len(w.frame(p)) for p in b.packets[-1:] + a.packets)
    p = subprocess.Popen([tool, "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdin.write(data[:cut])
    p.stdin.flush()
    time.sleep(1.5)
    rest = len(a.packets[-1]["data"]) + 54 + 16
    p.stdin.write(data[cut:-rest])
    p.stdin.flush()
    got = []
    while len(got) < 200:  # it comes although the input has not ended, or this waits for ever
        o = json.loads(p.stdout.readline())
        got += [o] if o["kind"] == "message" else []
    p.stdin.write(data[-rest:])
    p.stdin.close()
    got += [o for o in map(json.loads, p.stdout.read().splitlines()) if o["kind"] == "message"]
    p.stdout.close()
    expect(p.wait(timeout=60) == 0, "watched: the exit status")
    expect([m["conn"] for m in got[:200]] == [1] * 200, "watched: messages waited")
    expect(len(got) == 303, f"watched: {len(got)} messages")
    p = subprocess.run([tool, path], capture_output=True, timeout=60, check=True)
    expect(b"told late" not in p.stdout, "a file's lines are late")


# --- filters ---

FILTERS = ("op=send", "op!=send", "size>1000", "size=1..20", "error", "!error", "latency>0.001",
           "dir=s2c op=write,terminate", "frame=10..60", "time=0.02..0.1", "stag=0..0x7fffffff", "conn=1",
           "conn=0 size>200")


def slot(f):
    return (f["conn"], f["dir"], f.get("qn", "r" if f["opcode"] == 2 else "w"))


def pair_up(objs):
    """FPDU offsets of each message."""
    parts, whole = {}, []
    for o in objs:
        if o["kind"] == "fpdu" and "t" in o:
            parts.setdefault(slot(o), []).append(o["offset"])
        elif o["kind"] == "message":
            op = {"read_response": "r"}.get(o["op"], "w")
            whole.append((o, parts.pop((o["conn"], o["dir"], o.get("qn", op)), [])))
    return whole


def ident(m):
    return m["conn"], m["dir"], m["op"], m["first_frame"], m["frame"], m.get("msn"), m.get("to")


def check_filters(tool, folder, name):
    path = os.path.join(folder, name)
    everything = {ident(m): (m, offsets) for m, offsets in pair_up(t.run(tool, "-v", path))}
    for text in FILTERS:
        objs = t.run(tool, "-v", "--filter", text, path)
        shown = t.of_kind(objs, "message")
        known = [everything[ident(m)] for m in shown]
        want = sorted((m["conn"], m["dir"], x) for m, offsets in known for x in offsets)
        got = sorted((o["conn"], o["dir"], o["offset"]) for o in t.of_kind(objs, "fpdu"))
        expect(got == want, f"{name}: -v --filter {text}: {len(got)} FPDUs, of the messages {len(want)}")
        errors = sum(m.get("errors", 0) for m in shown)
        verdicts = t.of_kind(objs, "verdict")
        part = [v for v in verdicts if any(m["first_frame"] <= v["frame"] <= m["frame"] and
                                           m["conn"] == v["conn"] for m in shown)]
        expect(len(part) >= errors, f"{name}: --filter {text}: {errors} errors, {len(part)} verdicts")
        if text == "op=send":
            expect(len(verdicts) == errors, f"{name}: --filter {text}: {len(verdicts)} verdicts")
        of = {o["conn"] for o in objs if o["kind"] in ("message", "verdict", "gap")}
        if not text.startswith("conn=1"):
            introduced = {o["conn"] for o in t.of_kind(objs, "connection")}
            expect(introduced == of, f"{name}: --filter {text}: connections {introduced}, used {of}")
        lines = subprocess.run([tool, "-v", "--filter", text, path], capture_output=True, text=True,
                               timeout=60, check=True).stdout.splitlines()
        expect(sum(x.startswith(". ") for x in lines) == len(got)
               and sum(x[:1].isdigit() for x in lines) == len(shown),
               f"{name}: --filter {text}: the text shows something else than --json")


def main():
    tool, captures = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as d, t.captures(captures) as source:
        path = os.path.join(d, "order.pcap")
        for check in (check_hole, check_search, check_stuck, check_watched):
            check(tool, path)
        for name in ("raw-tagged.pcap", "rping-v4-4096.pcap", "crc-flip-payload.pcap",
                     "nfs3-session.pcap", "raw-mpa-ird.pcap", "gso-rping.pcap"):
            check_filters(tool, source, name)
    print("\n".join(faults) if faults else "order: ok")
    sys.exit(1 if faults else 0)


main()
