# SPDX-License-Identifier: MIT
"""What the tests of uiw-dump share: running it, counting what it tells."""

import contextlib
import hashlib
import json
import lzma
import os
import subprocess
import tempfile

NAMES = {"write": "Write", "read_request": "ReadReq", "read_response": "ReadResp", "send": "Send",
         "send_inv": "SendInv", "send_se": "SendSE", "send_se_inv": "SendSEInv",
         "terminate": "Terminate"}
DIRS = ("c2s", "s2c")


@contextlib.contextmanager
def captures(folder):
    """A folder with all captures as they were recorded; the large ones are stored compressed."""
    with tempfile.TemporaryDirectory() as d:
        for name in os.listdir(folder):
            path = os.path.abspath(os.path.join(folder, name))
            if name.endswith(".xz"):
                with lzma.open(path) as f, open(os.path.join(d, name[:-3]), "wb") as out:
                    out.write(f.read())
            else:
                os.symlink(path, os.path.join(d, name))
        yield d


def hashes(folder):
    """Of each capture as it was recorded, by name."""
    with open(os.path.join(folder, "SHA256SUMS"), encoding="ascii") as f:
        return {name: digest for digest, name in map(str.split, f)}


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def run(tool, *args, stdin=None, ok=True):
    """The objects of a --json run; every line must be one, and nothing may go wrong."""
    p = subprocess.run([tool, "--json", *map(str, args)], input=stdin, capture_output=True,
                       timeout=120)
    if ok and (p.returncode != 0 or p.stderr):
        raise AssertionError(f"{args}: exit {p.returncode}: {p.stderr.decode()}")
    if p.returncode < 0:
        raise AssertionError(f"{args}: signal {-p.returncode}")
    return [json.loads(line) for line in p.stdout.splitlines()]


def of_kind(objs, kind):
    return [o for o in objs if o["kind"] == kind]


def summaries(objs):
    return [o for o in of_kind(objs, "summary") if o["conn"] is not None]


def add(d, key, n=1):
    d[key] = d.get(key, 0) + n


def text(d):
    """{"a": 1, "b": 0} -> "a=1", sorted; "-" for nothing."""
    return " ".join(f"{k}={v}" for k, v in sorted(d.items()) if v) or "-"


def sort_pairs(s):
    return " ".join(sorted(p for p in s.split() if not p.endswith("=0"))) or "-"


def counts(objs):
    """Messages, FPDUs and payload by operation, from the summaries."""
    messages, fpdus, payload = {}, {}, {}
    for s in summaries(objs):
        for d in DIRS:
            for op, v in s[d]["ops"].items():
                name = NAMES.get(op, op)
                add(messages, name, v["messages"])
                add(fpdus, name, v["fpdus"])
                add(payload, name, v["bytes"])
    return messages, fpdus, payload


def listed(objs):
    out = {}
    for m in of_kind(objs, "message"):
        add(out, NAMES.get(m["op"], m["op"]))
    return out


def setup_text(o):
    s = (f"conn{o['conn']} {'Req' if o['type'] == 'request' else 'Rep'} M{o['markers']:d} "
         f"C{o['crc']:d} R{o['reject']:d} S{o['s']:d} rev{o['rev']} pd{o['pd_length']}")
    if "ird" in o:
        s += (f" ird{o['ird']} ord{o['ord']} p2p{o['p2p']:d} rtrW{'write' in o['rtr']:d} "
              f"rtrR{'read' in o['rtr']:d}")
    return s


def facts(objs):
    out = {"crc_good": 0, "crc_bad": 0, "nonzero_pads": 0, "not_captured": 0,
           "bad_checksum_segments": 0}
    for s in summaries(objs):
        for d in DIRS:
            for k in out:
                out[k] += (s[d]["missing_octets"] + s[d]["cut_octets"] if k == "not_captured"
                           else s[d][k])
    return out


def tally(objs, kind, key):
    out = {}
    for o in of_kind(objs, kind):
        add(out, o[key])
    return out
