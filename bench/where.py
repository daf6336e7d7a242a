#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the instructions of a kind of work go, by folder: where.py PROGRAM OP OCTETS COUNT DEVICE-KEYS DIVISOR

PROGRAM is bench/budget of the build folder; the counts are divided by DIVISOR (messages, or FPDUs)."""

import collections
import re
import subprocess
import sys
import tempfile

FOLDERS = [(r"/src/(base|mpa|ddp|rdmap|tcpip|api)/", None), (r"subprojects/lwip/", "lwip"),
           (r"/bench/", "the program"), (r"libisal|^\?\?\?", "CRC32c (isa-l)"),
           (r"mem(move|cpy|set)", "copies (libc)"), (r"malloc", "malloc"), (r"nptl", "locks")]


def folder(place):
    for pattern, name in FOLDERS:
        found = re.search(pattern, place)
        if found:
            return name or "src/" + found.group(1)
    return "rest"


def main():
    program, *args, divisor = sys.argv[1:]
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=measured",
                        "--callgrind-out-file=" + out.name, program, *args], check=True, capture_output=True)
        text = subprocess.run(["callgrind_annotate", "--auto=no", "--threshold=100", out.name], check=True,
                              capture_output=True, text=True).stdout
    sums = collections.Counter()
    for line in text.splitlines():
        found = re.match(r" *([\d,]+) \([ \d.]+%\) +(\S.*)", line)
        if found and "PROGRAM TOTALS" not in line:
            sums[folder(found.group(2))] += int(found.group(1).replace(",", ""))
    for name, n in sums.most_common():
        print(f"{name:20} {n / float(divisor):12.1f}")
    print(f"{'all':20} {sum(sums.values()) / float(divisor):12.1f}")


main()
