#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_hostile.py UIW-DUMP CAPTURES: what people do to a tool: odd pcapng files, clocks that jump,
outputs that cannot be written or are the input, closed pipes, contradicting options, a live capture
that is interrupted, more connections than there is room for."""

import json
import os
import random
import shutil
import signal
import socket
import struct
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


def call(tool, *args, **how):
    how.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([tool, *map(str, args)], stderr=subprocess.PIPE, timeout=60, check=False,
                          **how)


def send(msn, n=20):
    ulpdu = b"\x41\x43" + bytes(8) + msn.to_bytes(4, "big") + bytes(4) + bytes(n)
    return len(ulpdu).to_bytes(2, "big") + ulpdu + bytes(-(2 + len(ulpdu)) % 4 + 4)


def session(n=6):
    f = w.Flow(40000, 7999)
    f.open()
    f.add(0, cf.set_up(False, 0, 0))
    f.add(1, cf.set_up(True, 0, 0))
    for msn in range(1, n + 1):
        f.add(0, send(msn))
    f.close()
    return f.packets


# --- pcapng ---

def block(order, kind, body):
    body += bytes(-len(body) % 4)
    n = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + n + body + n


def option(order, code, value):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order):
    return block(order, 0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1)
                 + option(order, 4, b"a tool") + option(order, 0, b""))


def iface(order, link, resolution=None, offset=None):
    body = struct.pack(order + "HHI", link, 0, 0) + option(order, 2, b"eth7")
    if resolution is not None:
        body += option(order, 9, bytes([resolution]))
    if offset is not None:
        body += option(order, 14, struct.pack(order + "q", offset))
    return block(order, 1, body)


def packet(order, number, stamp, octets):
    return block(order, 6, struct.pack(order + "5I", number, stamp >> 32, stamp & 0xffffffff,
                                       len(octets), len(octets)) + octets + bytes(-len(octets) % 4)
                 + option(order, 1, b"a comment") + option(order, 0, b""))


def check_pcapng(tool, path):
    """Links, clocks and byte orders in turn; the times come out the same."""
    packets = session()
    kinds = (("ether", 9, 0, lambda ns: ns), ("sll2", None, 0, lambda ns: ns // 1000),
             ("raw", 0x80 | 20, None, lambda ns: (ns * 2**20 + 10**9 - 1) // 10**9),
             ("ether", 6, 1000, lambda ns: (ns - 1000 * 10**9) // 1000),
             ("null", 12, None, lambda ns: ns % 10**15 * 1000))
    out = b""
    for i, order in enumerate("<>"):
        out += section(order)
        for link, resolution, offset, _ in kinds:
            out += iface(order, w.LINKS[link], resolution, offset)
        for k, p in enumerate(packets[i * 6:i * 6 + 6] if i == 0 else packets[6:]):
            number = k % 4
            out += block(order, 0x0bad, os.urandom(20)) + packet(
                order, number, kinds[number][3](p["ns"]), w.frame(p, kinds[number][0]))
        out += block(order, 5, struct.pack(order + "III", 1, 0, 0)
                     + option(order, 5, struct.pack(order + "Q", 7)))
    with open(path, "wb") as f:
        f.write(out)
    objs = t.run(tool, path)
    m = t.of_kind(objs, "message")
    expect([x["msn"] for x in m] == [1, 2, 3, 4, 5, 6], f"pcapng: {len(m)} messages")
    want = [p["ns"] for p in packets if p["data"][2:4] == b"\x41\x43"]
    off = [abs(x["time_ns"] - ns) for x, ns in zip(m, want)]
    expect(max(off, default=0) <= 1000, f"pcapng: times are wrong by {off} ns")
    expect(objs[-1]["dropped_packets"] == 14, f"pcapng: drops: {objs[-1]['dropped_packets']}")
    expect(len(t.of_kind(t.run(tool, "-f", "tcp port 7999", path), "message")) == 6,
           "pcapng: a capture filter over several links")
    with open(path, "rb") as f:
        expect(call(tool, "--json", "-", stdin=f).stdout == call(tool, "--json", path).stdout,
               "pcapng: standard input shows something else")
    p = call(tool, "--write", path + ".pcap", path)
    expect(p.returncode == 1 and b"several kinds" in p.stderr, "pcapng: --write of several links")
    rnd = random.Random(7)
    for _ in range(300):
        bad = bytearray(out[:rnd.choice((len(out), rnd.randrange(len(out))))])
        for _ in range(rnd.choice((0, 1, 4))):
            bad[rnd.randrange(len(bad))] = rnd.randrange(256) if bad else 0
        p = call(tool, "-v", "-", input=bytes(bad))
        expect(p.returncode in (0, 1) and (p.returncode == 0) == (not p.stderr),
               f"pcapng: damaged: exit {p.returncode} {p.stderr}")


def check_simple(tool, path):
    """Blocks without a time, from an interface with a snaplen."""
    out = section("<") + block("<", 1, struct.pack("<HHI", 1, 0, 80))
    for p in session(3):
        octets = w.frame(p)
        out += block("<", 3, struct.pack("<I", len(octets)) + octets[:80])
    with open(path, "wb") as f:
        f.write(out)
    m = t.of_kind(t.run(tool, path), "message")
    expect([x["bytes"] for x in m] == [20, 20, 20] and all("missing" in x for x in m),
           "pcapng: simple packets")


# --- clocks ---

def check_clocks(tool, path):
    for name, clock in (("backwards", lambda i: 10**18 - i * 10**6),
                        ("jump", lambda i: i * 10**6 if i < 6 else 4 * 10**18 + i),
                        ("still", lambda i: 0)):
        packets = session()
        for i, p in enumerate(packets):
            p["ns"] = clock(i)
        w.write(path, packets, form="ns")
        objs = t.run(tool, path)
        expect(len(t.of_kind(objs, "message")) == 6, f"clock {name}: messages")
        one = t.summaries(objs)[0]
        expect(0 <= one["duration"] < 5e9, f"clock {name}: it lasted {one['duration']} s")
        expect(all(m.get("duration_ns", 0) < 5 * 10**18 for m in t.of_kind(objs, "message")),
               f"clock {name}: a message's duration")


def check_numbers(tool, path):
    """Sequence numbers, ACKs and ends half the space away from what is due."""
    for jump in (2**31 - 1, 2**31, 2**31 + 1):
        packets = session()
        for i, p in enumerate(packets[5:]):
            if i % 2:
                p["seq"] = (p["seq"] + jump) & 0xffffffff
            p["ack"] = (p["ack"] + jump * (i % 3)) & 0xffffffff
        w.write(path, packets)
        t.run(tool, path)


# --- outputs ---

def check_outputs(tool, captures, d):
    some = os.path.join(captures, "rtr-read.pcap")
    mine = os.path.join(d, "mine.pcap")
    shutil.copy(some, mine)
    with open(mine, "rb") as f:
        data = f.read()
    link = os.path.join(d, "link.pcap")
    os.symlink(mine, link)
    for args in (["--write", mine, mine], ["--html", mine, mine], ["--html", link, mine],
                 ["--write", link, mine], ["--html", d + "/x", "--write", d + "/x", mine]):
        p = call(tool, *args)
        expect(p.returncode == 2 and b"two files" in p.stderr, f"{args}: exit {p.returncode}")
    with open(mine, "rb") as f:
        expect(f.read() == data, "the input was overwritten")
    for args in (["--write", "/dev/full"], ["--html", "/dev/full"], ["--write", d + "/no/file"],
                 ["--html", d + "/no/file"], ["--html", d]):
        p = call(tool, *args, some)
        expect(p.returncode == 1 and p.stderr.count(b"\n") == 1 and args[1].encode() in p.stderr,
               f"{args}: exit {p.returncode} {p.stderr}")
    with open("/dev/full", "wb") as full:
        for args in ([], ["--json"], ["--summary"], ["--verdicts"], ["-v", "-x"], ["--html", "-"],
                     ["--write", "-"]):
            p = call(tool, *args, some, stdout=full)
            expect(p.returncode == 1 and p.stderr, f"{args} to a full disk: exit {p.returncode}")
    page = call(tool, "--html", "-", some).stdout
    expect(page.startswith(b"<!DOCTYPE") and page.rstrip().endswith(b"</html>"), "--html -")
    again = call(tool, "-", input=call(tool, "--write", "-", some).stdout).stdout
    expect(again == call(tool, some).stdout and again, "--write -")


def check_pipe(tool, captures):
    """The reader goes away: the tool ends, and says nothing about it."""
    p = subprocess.Popen([tool, "-v", "-x", os.path.join(captures, "netem-jitter-send.pcap")],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    err = p.stderr.read()
    p.stderr.close()
    expect(p.wait(timeout=60) in (-signal.SIGPIPE, 1) and b"Sanitizer" not in err, "closed pipe")


# --- arguments ---

def check_arguments(tool, captures, d):
    some = os.path.join(captures, "rtr-read.pcap")
    for args in ([], [some, some], ["-i", "lo", some], ["-s", "96", some], ["-s", "x", "-i", "lo"],
                 ["-s", "-5", "-i", "lo"], ["-s", "0", "-i", "lo"], ["--bogus", some], ["-i"],
                 ["--html", "-", "--json", some], ["--html", "-", "--write", "-", some]):
        p = call(tool, *args)
        expect(p.returncode == 2 and p.stderr.count(b"\n") == 1 and not p.stdout,
               f"{args}: exit {p.returncode} {p.stderr}")
    packed = os.path.join(d, "packed.gz")
    with open(packed, "wb") as f:
        f.write(b"\x1f\x8b\x08\0" + bytes(50))
    for path, word in ((packed, b"zcat"), (d, b"directory"), ("/dev/null", b"empty"),
                       (d + "/none", b"No such"), (sys.argv[0], b"no pcap")):
        p = call(tool, path)
        expect(p.returncode == 1 and word in p.stderr and path.encode() in p.stderr,
               f"{path}: {p.stderr}")
    for text in ("op=read", "size=9..5", "conn=-1", "size>1x", "latency>1m", "host>1", "dir>1", "stag",
                 "frame=99999999999999999999999", "time=nan", "size=,", "x" * 500):
        p = call(tool, "--filter", text, some)
        expect(p.returncode == 2 and b"not understood" in p.stderr, f"--filter {text}: {p.stderr}")
    everything = t.of_kind(t.run(tool, some), "message")
    for text, test in (("latency<1ms", lambda m: 0 <= m.get("latency_ns", 10**9) < 10**6),
                       ("latency>=290us", lambda m: m.get("latency_ns", 0) >= 290000),
                       ("size<0x40", lambda m: max(m["bytes"], m.get("length", 0)) < 64),
                       ("size>=1k", lambda m: m["bytes"] >= 1024), ("error=0", lambda m: True),
                       ("time=0.0..13ms", lambda m: m["since_start"] <= 0.013)):
        got = t.of_kind(t.run(tool, "--filter", text, some), "message")
        expect(got == list(filter(test, everything)), f"--filter {text}: {len(got)} messages")


# --- many connections ---

def check_many(tool, path):
    """40,000 at once: the oldest make room, and that is told of."""
    packets = []
    for i in range(40000):
        f = w.Flow(1024 + i, 7999, start=10**18 + i * 1000)
        f.open()
        f.add(0, cf.set_up(False, 0, 0))
        f.add(1, cf.set_up(True, 0, 0))
        f.add(0, send(1))
        packets += f.packets
    packets.sort(key=lambda p: p["ns"])
    w.write(path, packets)
    p = call(tool, path)
    expect(p.stdout.count(b" send ") == 40000, "many: messages are lost")
    expect(b"made room" in p.stdout, "many: nothing is told of those that made room")
    page = path + ".html"
    call(tool, "--html", page, path)
    expect(os.path.getsize(page) < 4 << 20, f"many: a page of {os.path.getsize(page)} octets")


# --- live ---

def talk(port):
    """A short session over loopback."""
    s = socket.create_server(("127.0.0.1", port))
    a = socket.create_connection(("127.0.0.1", port))
    b, _ = s.accept()
    for x, y, data in ((a, b, cf.set_up(False, 0, 0)), (b, a, cf.set_up(True, 0, 0)), (a, b, send(1)),
                       (a, b, send(2))):
        x.sendall(data)
        y.recv(1000)
    for x in (a, b, s):
        x.close()


def check_live(tool):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    p = subprocess.Popen([tool, "--json", "-i", "lo", "-f", f"tcp port {port}"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.set_blocking(p.stdout.fileno(), False)
    out, end = b"", time.monotonic() + 60
    while p.poll() is None and b'"message"' not in out and time.monotonic() < end:
        talk(port)
        time.sleep(0.3)
        out += p.stdout.read() or b""
    if p.poll() is not None:
        print("live:", p.stderr.read().decode().strip())  # not allowed to capture here
        return
    p.send_signal(signal.SIGINT)
    os.set_blocking(p.stdout.fileno(), True)
    rest, err = p.communicate(timeout=60)
    objs = [json.loads(x) for x in (out + rest).splitlines()]
    expect(p.returncode == 0 and not err, f"live: exit {p.returncode} {err}")
    expect(b'"message"' in out and objs[-1]["kind"] == "summary", "live: nothing while it runs")
    got = {m["msn"] for m in t.of_kind(objs, "message")}
    expect(got and got <= {1, 2}, f"live: messages {got}")


def main():
    tool, captures = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "hostile.pcap")
        for check in (check_pcapng, check_simple, check_clocks, check_numbers, check_many):
            check(tool, path)
        check_outputs(tool, captures, d)
        check_pipe(tool, captures)
        check_arguments(tool, captures, d)
    check_live(tool)
    print("\n".join(faults) if faults else "hostile: ok")
    sys.exit(1 if faults else 0)


main()
