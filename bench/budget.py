#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts instructions per message and per MB and holds them against budget.tsv.

  budget.py PROGRAM [--write]     PROGRAM: bench/budget of the build folder

Instructions do not shake as times do, whatever else the machine has to do. The copy and CRC loops of libc
and isa-l are counted too, in the form that valgrind's processor chooses. Fails when a count is more than 3 %
above its budget; --write makes what was counted the new budget. Another compiler makes other instructions:
then, or without valgrind, there is nothing to hold them against (status 77).
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "budget.tsv")
SLACK = 1.03

# name: (arguments of the program, messages that the count is divided by)
WORK = {
    "send-64": (["send", "64", "4000", ""], 4000),
    "pong-64": (["pong", "64", "2000", ""], 4000),
    "atomic": (["atomic", "8", "4000", ""], 4000),
    "write-1M-crc": (["write", "1048576", "40", ""], 40),
    "write-1M-mtu1500": (["write", "1048576", "40", "mtu=1500,crc=off"], 40),
    "write-1M-mtu1500-crc": (["write", "1048576", "40", "mtu=1500"], 40),
    "read-1M-mtu1500-crc": (["read", "1048576", "40", "mtu=1500"], 40),
}


def count(program, args):
    with tempfile.TemporaryDirectory() as tmp:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=measured",
             "--callgrind-out-file=" + os.path.join(tmp, "out"), program, *args],
            capture_output=True, text=True, timeout=600)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"budget: {' '.join(args)}: status {run.returncode}\n{run.stderr[-2000:]}")
    return int(found.group(1))


def toolchain():
    cc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return f"gcc {cc.stdout.strip()}, {platform.libc_ver()[1]}, {platform.machine()}"


def stored():
    """The tool chain of the budget, and the counts."""
    try:
        with open(TABLE, encoding="utf-8") as f:
            head, *rows = f.read().splitlines()
    except FileNotFoundError:
        return "", {}
    return head[2:], {name: int(n) for name, n in (row.split("\t") for row in rows)}


def main():
    program, write = sys.argv[1], "--write" in sys.argv[2:]
    (tools, old), new, over = stored(), {}, []
    if not shutil.which("valgrind"):
        print("budget: skipped: valgrind is not installed")
        sys.exit(77)
    if not write and tools != toolchain():
        print(f"budget: skipped: made with {tools}, here is {toolchain()}")
        sys.exit(77)
    for name, (args, messages) in WORK.items():
        new[name] = count(program, args) // messages
        was = old.get(name)
        print(f"{name:24} {new[name]:>10}" + (f"   budget {was:>10}  {new[name] / was:6.3f}" if was else
                                              "   no budget"), flush=True)
        if not was or new[name] > was * SLACK:
            over.append(name)
    if write:
        with open(TABLE, "w", encoding="utf-8") as f:
            f.write(f"# {toolchain()}\n")
            f.writelines(f"{name}\t{n}\n" for name, n in new.items())
    elif over:
        sys.exit("budget: more instructions than budgeted: " + ", ".join(over))


main()
