#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_dropped.py UIW-DUMP CAPTURES: a packet that the capture has not is nobody's fault. Whichever is
missing, there is no violation that the whole capture does not show, and no other time of a Read."""

import os
import sys
import tempfile

import dumptool as t
import wire as w

# name -> packets to leave out, one after the other: all, or every n-th
CAPTURES = {"rping-v4-64": 1, "rtr-both-rping": 2, "rtr-serverfirst": 1, "pt-read_bw-o1": 2, "op-crc-all": 2,
            "raw-tagged": 3, "ird-1-32": 3, "mpav1-siwx": 1, "raw-mpa-p2p": 3, "netem-loss15-rping": 3}


def view(tool, path):
    """Violations, and the times that answers took, by when their last packet came and their place in it."""
    verdicts, times, seen = set(), {}, {}
    for o in t.run(tool, path):
        if o["kind"] == "verdict":
            verdicts.add((o["time_ns"], o["requirement"]))
        elif o["kind"] == "message" and "latency_ns" in o:
            key = (o["time_ns"], o["conn"], o["dir"])
            seen[key] = seen.get(key, 0) + 1
            times[key + (seen[key],)] = o["latency_ns"]
    return verdicts, times


def check(tool, name, folder, step, d):
    packets = w.read(os.path.join(folder, name + ".pcap"))
    path = os.path.join(d, "dropped.pcap")
    w.write(path, packets, form="ns")
    verdicts, times = view(tool, path)
    faults = []
    runs = known = 0
    for i in range(0, len(packets), step):
        w.write(path, packets[:i] + packets[i + 1:], form="ns")
        more, other = view(tool, path)
        runs += 1
        known += len(other)
        faults += [f"{name} without packet {i + 1}: {v[1]}" for v in sorted(more - verdicts)]
        faults += [f"{name} without packet {i + 1}: {v} ns where it took {times[k]}"
                   for k, v in other.items() if k in times and times[k] != v]
    if times and known < len(times) * runs / 3:
        faults.append(f"{name}: {known} times of {len(times) * runs} are told")
    return runs, faults


def main():
    tool, folder = sys.argv[1:3]
    runs, faults = 0, []
    with tempfile.TemporaryDirectory() as d:
        for name, step in CAPTURES.items():
            n, found = check(tool, name, folder, step, d)
            runs += n
            faults += found
    print("\n".join(faults) if faults else f"{runs} captures with a packet missing: ok")
    sys.exit(1 if faults else 0)


main()
