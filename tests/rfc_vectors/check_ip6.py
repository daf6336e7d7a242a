#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_ip6.py UIW-CONFORM VECTORS: every vector file over IPv6, between two processes: the one half on
the kernel's TCP to a responder at ::1, the other over a link in shared memory. Needs no privilege."""

import os
import re
import subprocess
import sys
import threading

CONFORM, VECTORS = sys.argv[1:3]
WIRE = f"uiw-conform-ip6-{os.getpid()}"
# How the player reaches a responder -> the RFCs it plays.
HALVES = {"sock": ("5040", "5041"), "shm": ("5044", "6581", "7306")}
# These need a hand inside a wire or a stack: tests play-ip6 have them, over IPv6 as well.
NOT_FROM_OUTSIDE = {"M07", "S02", "S15", "S16", "S23", "S24"}
FAULTS = []


def listed():
    done = subprocess.run([CONFORM, "--vectors", VECTORS, "--list"], capture_output=True, text=True,
                          check=True)
    return {line.split()[1] for line in done.stdout.splitlines()}


def responder(device):
    r = subprocess.Popen([CONFORM, "--responder", "--device", device, "--port", "0"],
                         stdout=subprocess.PIPE, text=True)
    return r, re.fullmatch(r"responder: listening on port (\d+)\n", r.stdout.readline()).group(1)


def half(how, played):
    """Plays the RFCs of that half; what ran, by id, goes to played."""
    device = "sock:::1,mtu=1500" if how == "sock" else f"shm:/{WIRE},ip=fd00::1"
    ours = [] if how == "sock" else ["--device", f"shm:/{WIRE},ip=fd00::2"]
    r, port = responder(device)
    peer = f"[::1]:{port}" if how == "sock" else f"[fd00::1]:{port}"
    done = subprocess.run([CONFORM, "--vectors", VECTORS, "--strict", "--format", "plain", *ours,
                           *(f"--rfc={rfc}" for rfc in HALVES[how]), peer],
                          capture_output=True, text=True)
    for line in done.stdout.splitlines():
        m = re.match(r"(\w+) rfc\d+ (\w+) ", line)
        if m and m.group(1) in ("pass", "skip"):
            played[m.group(2)] = m.group(1)
        elif m:
            FAULTS.append(f"{how}: {line}")
    if done.returncode != 0:
        FAULTS.append(f"{how}: status {done.returncode}: {done.stderr}")
    if "a responder" not in done.stdout:
        FAULTS.append(f"{how}: the peer is no responder: {done.stdout}")
    r.terminate()
    if r.wait() != 0:
        FAULTS.append(f"{how}: the responder's status is {r.returncode}")


def main():
    played = {}
    halves = [threading.Thread(target=half, args=(how, played)) for how in HALVES]
    for t in halves:
        t.start()
    for t in halves:
        t.join()
    passed = {i for i, word in played.items() if word == "pass"}
    missing = listed() - passed - NOT_FROM_OUTSIDE
    if missing or passed & NOT_FROM_OUTSIDE:
        FAULTS.append(f"not played: {sorted(missing)}; played all the same: "
                      f"{sorted(passed & NOT_FROM_OUTSIDE)}")
    print("\n".join(FAULTS), f"{len(passed)} files passed over IPv6", sep="\n")
    return bool(FAULTS)


sys.exit(main())
