#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_fields.py UIW-DUMP VECTORS [CAPTURES]: every vector file as a connection of one capture; each
field that uiw-dump shows must be what the vector says, and what tshark shows where tshark is right.
With CAPTURES the recorded ones are compared with tshark as well."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import dumptool as t
import wire as w

REQ, REP = b"MPA ID Req Frame", b"MPA ID Rep Frame"

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
    TABLE.append(i)


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return (c ^ 0xffffffff).to_bytes(4, "little")


def octets(words):
    out = b""
    for x in words:
        if x.startswith("zero:"):
            out += bytes(int(x[5:]))
        elif x.startswith("pattern:"):
            n, _, at = x[8:].partition("@")
            at = int(at or 0)
            out += bytes((7 * i + 3) & 255 for i in range(at, at + int(n)))
        else:
            out += bytes.fromhex(x)
    return out


class Vector:
    def __init__(self, name):
        self.name, self.cfg, self.kind, self.octets, self.events = name, {}, "", b"", []


def read_vectors(folder):
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(n for n in names if n.endswith(".vec")):
            v = None
            with open(os.path.join(path, name), encoding="utf-8") as f:
                for line in f:
                    words = line.split()
                    if not words or words[0].startswith("#"):
                        continue
                    if words[0] == "vector":
                        if v:
                            yield v
                        v = Vector(words[1])
                        playing = False
                    elif v is None or words[0] == "play" or playing:
                        playing = True
                    elif words[0] == "cfg":
                        v.kind = words[1]
                        v.cfg = dict(x.split("=", 1) for x in words[2:])
                    elif words[0] in ("=", "<"):
                        v.octets += octets(words[1:])
                    elif words[0] == "!":
                        v.events.append((words[1], dict(x.split("=", 1) for x in words[2:] if "=" in x)))
            if v:
                yield v


def set_up(reply, crc, markers, rev=1):
    return (REP if reply else REQ) + bytes([markers << 7 | crc << 6, rev, 0, 0])


def filler(pos):
    """FPDUs of exactly pos stream octets, Markers included: one Write."""
    if pos == 0:
        return b""
    body_len = pos - 4 * -(-pos // 512) - 6
    body = body_len.to_bytes(2, "big") + b"\xc1\x40" + bytes(12) + bytes(body_len - 14)
    out, at = b"", 0
    while at < len(body):
        if len(out) % 512 == 0:
            out += b"\0\0" + (len(out) - 4 if out else 0).to_bytes(2, "big")
        n = min(len(body) - at, 512 - len(out) % 512)
        out += body[at:at + n]
        at += n
    return out + crc32c(out)


def connection(v, port):
    f = w.Flow(port, 7999)
    f.open()
    if v.kind == "startup":
        if v.cfg.get("us") == "initiator":
            rev = int(v.cfg.get("rev", 2))
            p2p = 0x8000 if v.cfg.get("p2p") == "1" else 0
            word = ((int(v.cfg.get("ird", 16)) | p2p).to_bytes(2, "big")
                    + int(v.cfg.get("ord", 16)).to_bytes(2, "big"))
            f.add(0, REQ + bytes([0x50 if rev == 2 else 0x40, rev, 0, 4 if rev == 2 else 0])
                  + (word if rev == 2 else b""))
            f.add(1, v.octets)
        else:
            f.add(0, v.octets)
    else:
        crc, markers = int(v.cfg.get("crc", 1)), int(v.cfg.get("markers", 0))
        f.add(0, set_up(False, crc, 0))
        f.add(1, set_up(True, crc, markers))
        fill = filler(int(v.cfg.get("pos", 0)))
        if fill:
            f.add(0, fill)
        f.add(0, v.octets)
    f.close()
    return f.packets


def num(s, default=0):
    return int(s, 0) if s is not None else default


def check_events(v, fpdus):
    """uiw-dump against the vector's own lines."""
    i = 0
    for what, a in v.events:
        if what not in ("tagged", "untagged", "ulpdu"):
            continue
        if i == len(fpdus):
            yield f"{v.name}: FPDU {i + 1} is not shown"
            return
        f, i = fpdus[i], i + 1
        if what == "ulpdu":
            continue
        want = {"t": what == "tagged", "l": num(a.get("last"), 1) != 0, "dv": num(a.get("dv"), 1),
                "opcode": num(a.get("ctl")) & 15, "rv": num(a.get("ctl")) >> 6,
                "markers": num(a.get("markers"))}
        if what == "tagged":
            want |= {"stag": f"0x{num(a.get('stag')):08x}", "to": f"0x{num(a.get('to')):016x}"}
        else:
            want |= {"invalidate_stag": f"0x{num(a.get('inv')):08x}", "qn": num(a.get("qn")),
                     "msn": num(a.get("msn")), "mo": num(a.get("mo"))}
        for k, x in want.items():
            if f.get(k) != x:
                yield f"{v.name}: FPDU {i}: {k} {f.get(k)}, the vector says {x}"


# --- what a Terminate is about ---

OPS = {0: ("write", "Write"), 1: ("read_request", "Read Request"), 2: ("read_response", "Read Response"),
       3: ("send", "Send"), 4: ("send_inv", "Send with Invalidate"), 8: ("immediate", "Immediate Data"),
       10: ("atomic_request", "Atomic Request")}


def terminated(header):
    """The fields of a DDP header, and how -v shows them."""
    control, ulp = header[0], header[1]
    tagged = control >> 7
    fields = {"t": bool(tagged), "l": bool(control & 0x40), "dv": control & 3, "rv": ulp >> 6, "opcode": ulp & 15}
    name, words = OPS.get(ulp & 15, (f"op{ulp & 15}", "experimental" if ulp & 15 == 15 else "unassigned"))
    fields["op"] = name
    text = (f"T {tagged} L {int(fields['l'])} DV {fields['dv']} RV {fields['rv']} "
            f"Opcode {fields['opcode']} ({words})")
    if tagged:
        stag, to = int.from_bytes(header[2:6], "big"), int.from_bytes(header[6:14], "big")
        fields |= {"stag": f"0x{stag:08x}", "to": f"0x{to:016x}"}
        return fields, f"{text} STag 0x{stag:08x} TO 0x{to:x}"
    inv, qn, msn, mo = (int.from_bytes(header[i:i + 4], "big") for i in (2, 6, 10, 14))
    fields |= {"invalidate_stag": f"0x{inv:08x}", "qn": qn, "msn": msn, "mo": mo}
    return fields, f"{text} InvalidateSTag 0x{inv:08x} QN {qn} MSN {msn} MO {mo}"


def expected_terminate(v):
    """(fields of the JSON message, lines of -v) for the Terminate of a vector, if it has one."""
    event = next((a for what, a in v.events if what == "terminate"), None)
    if event is None:
        return {}, []
    m, d, r = (num(event.get(k)) for k in "mdr")
    want, lines = {}, []
    if m:
        want["ddp_segment_length"] = num(event.get("len"))
    if d:
        want["terminated_ddp"], text = terminated(bytes.fromhex(event["ddp"]))
        lines = [f"    terminated segment of {num(event.get('len'))} octets: {text}"]
    elif m:
        lines = [f"    terminated segment of {num(event.get('len'))} octets: without its DDP header"]
    if r:
        a = next(a for what, a in v.events if what == "cause")
        n = {k: num(a.get(k)) for k in ("sink_stag", "sink_to", "len", "src_stag", "src_to")}
        want["terminated_read"] = {"length": n["len"], "sink_stag": f"0x{n['sink_stag']:08x}",
                                   "sink_to": f"0x{n['sink_to']:016x}", "src_stag": f"0x{n['src_stag']:08x}",
                                   "src_to": f"0x{n['src_to']:016x}"}
        lines.append(f"    terminated Read Request: SinkSTag 0x{n['sink_stag']:08x} SinkTO 0x{n['sink_to']:x} "
                     f"RDMARDSZ {n['len']} SrcSTag 0x{n['src_stag']:08x} SrcTO 0x{n['src_to']:x}")
    return want, lines


def check_terminates(vectors, objs, text):
    lines, seen = [], 0
    for i, v in enumerate(vectors):
        want, more = expected_terminate(v)
        lines += more
        shown = [o for o in t.of_kind(objs, "message") if o["conn"] == i and o["op"] == "terminate"]
        if len(shown) != any(what == "terminate" for what, _ in v.events):
            yield f"{v.name}: {len(shown)} Terminates"
        for o in shown:
            seen += bool(want)
            got = {k: o[k] for k in ("ddp_segment_length", "terminated_ddp", "terminated_read") if k in o}
            if got != want:
                yield f"{v.name}: {got}, the vector says {want}"
    got = [line for line in text.splitlines() if line.startswith("    terminated")]
    if got != lines or seen < 20:
        yield f"{seen} Terminates with headers; -v differs: {sorted(set(got) ^ set(lines))}"


# --- tshark ---

FIELDS = ["frame.number", "iwarp_mpa.rev", "iwarp_mpa.pdlength", "iwarp_mpa.marker_flag",
          "iwarp_mpa.crc_flag", "iwarp_mpa.rej_flag", "iwarp_mpa.ulpdulength", "iwarp_ddp.tagged_flag",
          "iwarp_ddp.last_flag", "iwarp_ddp.dv", "iwarp_rdma.version", "iwarp_rdma.opcode",
          "iwarp_ddp.stag", "iwarp_ddp.tagged_offset", "iwarp_rdma.inval_stag", "iwarp_ddp.qn",
          "iwarp_ddp.msn", "iwarp_ddp.mo", "iwarp_rdma.sinkstag", "iwarp_rdma.sinkto",
          "iwarp_rdma.rdmardsz", "iwarp_rdma.srcstag", "iwarp_rdma.srcto"]

# Where tshark 4.0 shows something else than what is there. Not compared.
TSHARK_WRONG = {
    "a header in a ULPDU that is too short for one": re.compile(r"V052"),
}


def tshark(path):
    args = ["tshark", "-n", "-r", path, "--disable-protocol", "rpcordma", "--disable-protocol",
            "smb_direct", "-o", "tcp.try_heuristic_first:TRUE", "-T", "fields", "-E",
            "aggregator=;"]
    for f in FIELDS:
        args += ["-e", f]
    out = subprocess.run(args, capture_output=True, text=True, timeout=300, check=True).stdout
    rows = {}
    for line in out.splitlines():
        values = line.split("\t")
        rows[int(values[0])] = {f: [x for x in v.split(";") if x] for f, v in zip(FIELDS, values)}
    return rows


def mine(objs):
    """The same per frame from uiw-dump."""
    rows = {}
    bit = {True: "1", False: "0"}
    for o in objs:
        r = rows.setdefault(o.get("frame"), {f: [] for f in FIELDS})
        if o["kind"] == "setup":
            for f, k in (("rev", "rev"), ("pdlength", "pd_length")):
                r["iwarp_mpa." + f].append(o[k])
            for f, k in (("marker", "markers"), ("crc", "crc"), ("rej", "reject")):
                r[f"iwarp_mpa.{f}_flag"].append(int(o[k]))
        elif o["kind"] == "fpdu":
            r["iwarp_mpa.ulpdulength"].append(o["ulpdu_length"])
            if "t" not in o:
                continue
            r["iwarp_ddp.tagged_flag"].append(bit[o["t"]])
            r["iwarp_ddp.last_flag"].append(bit[o["l"]])
            r["iwarp_ddp.dv"].append(o["dv"])
            r["iwarp_rdma.version"].append(o["rv"])
            r["iwarp_rdma.opcode"].append(o["opcode"])
            if o["t"]:
                r["iwarp_ddp.stag"].append(o["stag"])
                r["iwarp_ddp.tagged_offset"].append(o["to"])
            else:
                if o["opcode"] in (4, 6):
                    r["iwarp_rdma.inval_stag"].append(o["invalidate_stag"])
                for k in ("qn", "msn", "mo"):
                    r["iwarp_ddp." + k].append(o[k])
        elif o["kind"] == "message" and o["op"] == "read_request" and "length" in o:
            for f, k in (("sinkstag", "sink_stag"), ("sinkto", "sink_to"), ("rdmardsz", "length"),
                         ("srcstag", "src_stag"), ("srcto", "src_to")):
                r["iwarp_rdma." + f].append(o[k])
    return rows


def as_numbers(values):
    return [int(x, 0) if isinstance(x, str) else int(x) for x in values]


def compare(rows, shown, owner, skip):
    """Frames that both show; field by field. Returns faults and how many values were equal."""
    faults, same = [], 0
    for number, ts in rows.items():
        name = owner(number)
        own = shown.get(number)
        if own is None or any(p.match(name) for p in skip.values()) or not (
                ts["iwarp_mpa.ulpdulength"] or ts["iwarp_mpa.rev"]):
            continue
        for f in FIELDS[1:]:
            if not ts[f]:
                continue
            if as_numbers(ts[f]) != as_numbers(own[f]):
                faults.append(f"{name}: frame {number}: {f}: {own[f]}, tshark {ts[f]}")
            same += len(ts[f])
    return faults, same


# Captures in which tshark loses FPDUs (out of order, missing), or takes them for something else.
TSHARK_LOST = re.compile(r"netem-|.*-loss|raw-length")


def check_captures(tool, folder):
    faults, same = [], 0
    for name in sorted(n for n in os.listdir(folder) if n.endswith((".pcap", ".pcapng"))):
        path = os.path.join(folder, name)
        if not TSHARK_LOST.match(name):
            more, n = compare(tshark(path), mine(t.run(tool, "-v", path)), lambda _, x=name: x, {})
            faults += more
            same += n
    return faults, same


def main():
    tool, folder = sys.argv[1:3]
    vectors = [v for v in read_vectors(folder) if v.kind in ("stream", "startup") and v.octets]
    packets, owners = [], []
    for i, v in enumerate(vectors):
        part = connection(v, 20000 + i)
        for p in part:
            p["ns"] += i * 10**9
        packets += part
        owners += [v] * len(part)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "vectors.pcap")
        w.write(path, packets)
        objs = t.run(tool, "-v", path)
        text = subprocess.run([tool, "-v", path], capture_output=True, text=True, check=True).stdout
        rows = tshark(path) if shutil.which("tshark") else {}
    faults = []
    for i, v in enumerate(vectors):
        fpdus = [o for o in t.of_kind(objs, "fpdu") if o["conn"] == i]
        if int(v.cfg.get("pos", 0)) > 0:
            fpdus = fpdus[1:]
        faults += check_events(v, fpdus)
        if v.kind == "stream" and any(e[0] == "bad" for e in v.events) and not any(
                o["conn"] == i for o in t.of_kind(objs, "verdict")):
            faults.append(f"{v.name}: no verdict on what is bad")
    faults += check_terminates(vectors, objs, text)
    faults += [f"a verdict without octets: {o}" for o in t.of_kind(objs, "verdict") if not o["octets"]]
    more, same = compare(rows, mine(objs), lambda n: owners[n - 1].name, TSHARK_WRONG)
    faults += more
    if len(sys.argv) > 3 and shutil.which("tshark"):
        with t.captures(sys.argv[3]) as d:
            more, n = check_captures(tool, d)
        faults += more
        same += n
    print("\n".join(faults) if faults else
          f"{len(vectors)} vectors: ok, {same} values as tshark has them")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
