#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dump.py UIW-DUMP DUMP-GEN [FOLDER]: how fast uiw-dump reads captures, against tshark, and how much
memory it takes. Times are of the processor (user and system), so that a busy machine does not count;
each file is read once before, so that it comes from the page cache. FOLDER, default the system's for
temporary files, needs 2.3 GB."""

import os
import shutil
import subprocess
import sys
import tempfile

RUNS = 3


def measure(args):
    """Seconds of processor time and peak memory in MB."""
    pid = os.fork()
    if pid == 0:
        out = os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execvp(args[0], args)
    _, status, use = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"{args[0]} failed")
    return use.ru_utime + use.ru_stime, use.ru_maxrss / 1024


def warm(path):
    with open(path, "rb") as f:
        while f.read(1 << 22):
            pass


def best(args):
    runs = [measure(args) for _ in range(RUNS)]
    return min(r[0] for r in runs), max(r[1] for r in runs)


def main():
    tool, gen = sys.argv[1:3]
    folder = sys.argv[3] if len(sys.argv) > 3 else None
    faults = []
    with tempfile.TemporaryDirectory(dir=folder) as d:
        path = os.path.join(d, "x.pcap")

        def make(*args):
            subprocess.run([gen, path, *map(str, args)], check=True)
            warm(path)
            return os.path.getsize(path) / 1e9

        rates = {}
        for name, args in (("64 KB frames", (1000, 65000)), ("64 KB frames, CRC", (1000, 65000, "crc")),
                           ("64 KB frames, CRC, Markers", (1000, 65000, "crc", "markers")),
                           ("1500-byte frames, CRC", (1000, 1448, "crc"))):
            size = make(*args)
            took, memory = best([tool, path])
            rates[name] = size / took
            print(f"{name}: {size / took:.2f} GB/s, {memory:.1f} MB of memory")
        for name in ("64 KB frames", "64 KB frames, CRC"):
            if rates[name] < 1:
                faults.append(f"{name}: below 1 GB/s")

        make(200, 1448)
        took, _ = best([tool, path])
        print(f"200 MB of 1500-byte frames: uiw-dump {took:.3f} s", end="")
        if shutil.which("tshark"):
            other, memory = measure(["tshark", "-n", "-r", path])
            print(f", tshark -r {other:.1f} s ({memory:.0f} MB): {other / took:.0f} times")
            if other / took < 20:
                faults.append("not 20 times faster than tshark")
        else:
            print()

        memory = []
        for megabytes in (200, 2000):
            make(megabytes, 1448)
            memory.append(measure([tool, path])[1])
            print(f"{megabytes} MB: {memory[-1]:.1f} MB of memory")
        if memory[1] > memory[0] * 1.2 + 1:
            faults.append("memory grows with the file")
    print("\n".join(faults) if faults else "dump: ok")
    sys.exit(1 if faults else 0)


main()
