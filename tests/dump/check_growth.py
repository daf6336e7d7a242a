#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_growth.py UIW-DUMP: input that is made to cost a lot. Twice of it takes about twice as long, no
file of these sizes takes a second of processor time, and memory stays flat."""

import os
import random
import resource
import struct
import subprocess
import sys
import tempfile

import wire as w

MOST_SECONDS = 1.0


def flow(port=40000, open_it=True):
    f = w.Flow(port, 7999)
    if open_it:
        f.open()
        f.add(0, b"MPA ID Req Frame" + bytes([0, 1, 0, 0]))
        f.add(1, b"MPA ID Rep Frame" + bytes([0, 1, 0, 0]))
    return f


def backwards(n):
    """Every segment lies before the one that came last: a sorted list is entered at its far end."""
    f = flow()
    base = f.seq[0]
    for i in range(n, 0, -1):
        f.seq[0] = base + i * 10
        f.add(0, b"12345678")
    return f.packets


def false_starts(n):
    """In mid-stream, octets that look like FPDU headers everywhere and lead nowhere."""
    f = flow(open_it=False)
    rnd = random.Random(1)
    for _ in range(n):
        f.add(0, b"".join(struct.pack("!H", rnd.choice((1400, 60000, 14))) + b"\xc1\x40"
                          for _ in range(350)))
    return f.packets


def false_starts_again(n):
    """The same in a connection that is known to be iWARP, where the search never ends."""
    f = flow()
    f.add(0, bytes(100))
    f.packets.pop()
    data = [p["data"] for p in false_starts(n)]
    for x in data:
        f.add(0, x)
        f.add(1)
    return f.packets


def short_chains(n):
    """Chains that hold for a while, with CRCs to compute, then break."""
    f = flow(open_it=False)
    fpdu = struct.pack("!H", 16) + b"\xc1\x40" + bytes(14) + b"\0\0" + b"\x01\x02\x03\x04"
    for _ in range(n):
        f.add(0, (fpdu * 7 + b"\xff" * 6) * 8)
    return f.packets


def empty_fpdus(n):
    f = flow()
    for _ in range(n):
        f.add(0, bytes(8) * 180)
    return f.packets


def many_connections(n):
    out = []
    for i in range(n):
        f = w.Flow(1024 + i % 60000, 7999, start=10**18 + i * 10**6)
        f.add(0, flags=w.SYN)
        out += f.packets
    return out


def unanswered_reads(n):
    f = flow()
    for i in range(n):
        one = b""
        for k in range(20):
            ulpdu = (b"\x41\x41" + bytes(4) + struct.pack("!III", 1, i * 20 + k + 1, 0)
                     + struct.pack("!IQIIQ", k, 0, 1, 2, 0))
            one += struct.pack("!H", len(ulpdu)) + ulpdu + bytes(4)
        f.add(0, one)
    return f.packets


def wrong_responses(n):
    """Responses that answer none of many open requests."""
    f = flow()
    for p in unanswered_reads(100)[5:]:
        f.add(0, p["data"])
    for _ in range(n):
        f.add(1, (struct.pack("!H", 14) + b"\xc1\x42" + b"\xee" * 12 + bytes(4)) * 50)
    return f.packets


def holes(n):
    """Each second segment is missing, and acknowledged."""
    f = flow()
    for i in range(n):
        f.add(0, b"\0\x16\xc1\x40" + bytes(24))
        if i % 2:
            f.packets.pop()
        f.add(1)
    return f.packets


def stags(n):
    """Each Write has an STag of its own."""
    f = flow()
    for i in range(n):
        f.add(0, b"".join(struct.pack("!H", 16) + b"\xc1\x40" + struct.pack("!IQ", i * 40 + k, 0)
                          + bytes(8) for k in range(40)))
    return f.packets


def long_message(n):
    """One message whose end, which a filter waits for, never comes."""
    f = flow()
    for i in range(n):
        f.add(0, b"".join(struct.pack("!H", 15) + b"\x81\x40" + struct.pack("!IQ", 7, i * 40 + k)
                          + bytes(8) for k in range(40)))
    return f.packets


# With these the options are others.
OPTIONS = {long_message: ["-v", "--filter", "size>5"]}


def run(tool, path, options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run([tool, *options, path],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode != 0:
        raise AssertionError(p.stderr.decode())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    tool = sys.argv[1]
    faults = []
    with open(tool, "rb") as f:
        most = MOST_SECONDS * (10 if b"__asan_init" in f.read() else 1)
    cases = {backwards: 6000, false_starts: 700, false_starts_again: 1500, short_chains: 1000, empty_fpdus: 700,
             many_connections: 15000, unanswered_reads: 500, wrong_responses: 400, holes: 6000,
             stags: 700, long_message: 500}
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "x.pcap")
        for case, n in cases.items():
            took = []
            options = OPTIONS.get(case, ["--verdicts", "--messages", "--summary"])
            for size in (n, 2 * n):
                w.write(path, case(size))
                took.append(min(run(tool, path, options) for _ in range(2)))
            print(f"{case.__name__}: {took[0]:.3f} s, twice of it {took[1]:.3f} s")
            if took[1] > most:
                faults.append(f"{case.__name__}: {took[1]:.2f} s")
            if took[1] > 3.2 * took[0] and took[1] > 0.3:
                faults.append(f"{case.__name__}: grows faster than its input")
    print("\n".join(faults) if faults else "growth: ok")
    sys.exit(1 if faults else 0)


main()
