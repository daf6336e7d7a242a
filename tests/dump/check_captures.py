#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_captures.py UIW-DUMP FOLDER: what uiw-dump says of each capture against expected.tsv; and each
is the one that was recorded."""

import csv
import os
import sys

import dumptool as t


# What rides on top, by the file's name: how each Send is named.
UPPER = {"iser-": "iSER", "nfs": "RPC-over-RDMA", "nvme-": "NVMe", "rping-": "rping", "rcopy": "rsockets",
         "riostream": "rsockets", "rstream": "rsockets", "pt-": "perftest"}


def check_upper(name, objs):
    for prefix, upper in UPPER.items():
        sends = [m for m in t.of_kind(objs, "message") if m["op"].startswith("send")]
        bad = [m for m in sends if m.get("upper", "").split(" ")[0] != upper]
        if name.startswith(prefix) and (bad or not sends):
            yield f"{name}: {len(bad)} of {len(sends)} Sends are not named as {upper}"


def check(tool, folder, want):
    objs = t.run(tool, os.path.join(folder, want["file"]))
    messages, fpdus, payload = t.counts(objs)
    got = {
        "connections": str(len(t.summaries(objs))),
        "messages": t.text(messages),
        "fpdus": t.text(fpdus),
        "payload": t.text(payload),
        "setup": "; ".join(sorted(map(t.setup_text, t.of_kind(objs, "setup")))) or "-",
        "facts": t.text(t.facts(objs)),
        "verdicts": t.text(t.tally(objs, "verdict", "requirement")),
        "gaps": t.text(t.tally(objs, "gap", "reason")),
    }
    for key, value in got.items():
        right = want[key] if key in ("connections", "setup") else t.sort_pairs(want[key])
        if value != right:
            yield f"{want['file']}: {key}: {value}, expected {right}"
    if t.text(t.listed(objs)) != got["messages"]:
        yield f"{want['file']}: message lines {t.text(t.listed(objs))}, summary {got['messages']}"
    times = [m["time_ns"] for m in t.of_kind(objs, "message")]
    if times != sorted(times):
        yield f"{want['file']}: messages are not in the order of time"
    yield from check_upper(want["file"], objs)
    for o in t.of_kind(objs, "verdict"):
        if not o["octets"]:
            yield f"{want['file']}: a verdict without octets: {o['requirement']}"
    for o in t.of_kind(objs, "message"):
        missing = {"time", "frame", "conn", "dir", "op", "bytes"} - set(o)
        if missing:
            yield f"{want['file']}: a message without {missing}"


def main():
    tool, folder = sys.argv[1:3]
    with t.captures(folder) as d:
        with open(os.path.join(d, "expected.tsv"), encoding="utf-8") as f:
            rows = list(csv.DictReader(f, delimiter="\t"))
        want = t.hashes(d)
        faults = [f"{name}: not the capture that was recorded" for name, h in want.items()
                  if t.digest(os.path.join(d, name)) != h]
        if set(want) != {row["file"] for row in rows}:
            faults.append("expected.tsv and SHA256SUMS name other files")
        faults += [fault for row in rows for fault in check(tool, d, row)]
    print("\n".join(faults) if faults else f"{len(rows)} captures: ok")
    sys.exit(1 if faults else 0)


main()
