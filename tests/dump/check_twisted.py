#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_twisted.py UIW-DUMP FOLDER [LIMIT]: each capture re-cut on purpose. Where all octets are still
there the messages must be the same; where not, what was not seen must be named."""

import os
import random
import sys
import tempfile

import dumptool as t
import wire as w


def spread(packets):
    """New times, 10 us apart, so that no hole is old when it is filled."""
    for i, p in enumerate(packets):
        p["ns"] = 10**18 + i * 10000
    return packets


def key(p):
    return p["src"], p["sport"], p["dst"], p["dport"]


def cut(p, at, n):
    """n octets of p's payload from at on, as a packet."""
    q = dict(p, data=p["data"][at:at + n], seq=p["seq"] + at + (1 if at and p["flags"] & w.SYN else 0))
    if at:
        q["flags"] &= ~w.SYN
    if at + n < len(p["data"]):
        q["flags"] &= ~w.FIN
    return q


# --- nothing is lost ---

def split(packets, rnd):
    out = []
    for p in packets:
        at = 0
        most = rnd.choice((1, 7, 61, 700, 1400)) if len(p["data"]) < 3000 else 1400
        while len(p["data"]) - at > most:
            out.append(cut(p, at, rnd.randint(1, most)))
            at += len(out[-1]["data"])
        out.append(cut(p, at, len(p["data"]) - at))
    return out


def merge(packets, rnd):
    """Super-frames: neighbours of one direction joined, up to 64 KB."""
    out = []
    for p in packets:
        last = out[-1] if out else None
        if (last and p["data"] and last["data"] and key(last) == key(p)
                and p["seq"] == (last["seq"] + len(last["data"])) & 0xffffffff
                and not (last["flags"] | p["flags"]) & (w.SYN | w.FIN | w.RST)
                and len(last["data"]) + len(p["data"]) < 65000 and rnd.random() < 0.95):
            last["data"] += p["data"]
        else:
            out.append(dict(p))
    return out


def reorder(packets, rnd):
    """Payload comes up to six places late. What a connection begins with stays: who was the client,
    and with what octets a stream starts, is known from that only."""
    begun, slot = {}, []
    for i, p in enumerate(packets):
        begun[key(p)] = begun.get(key(p), 0) + bool(p["data"])
        late = rnd.choice((0, 0, 0, 2, 6)) if p["data"] and begun[key(p)] > 2 else 0
        slot.append((i + late, i, p))
    return [p for _, _, p in sorted(slot, key=lambda s: s[:2])]


def duplicate(packets, rnd):
    out = []
    for i, p in enumerate(packets):
        out.append(p)
        if rnd.random() < 0.3 and p["data"]:
            out.append(dict(p))
        if rnd.random() < 0.2 and i > 3:
            old = packets[rnd.randint(i - 3, i - 1)]
            if old["data"] and not old["flags"] & (w.SYN | w.FIN):
                out.append(dict(old))
    return out


def overlap(packets, rnd):
    """Retransmissions whose limits are others than those of the first time."""
    out, last = [], {}
    for p in packets:
        old = last.get(key(p))
        if (old and p["data"] and rnd.random() < 0.4 and not (old["flags"] | p["flags"]) & (w.SYN | w.FIN)
                and old["seq"] + len(old["data"]) == p["seq"] and old["data"]):
            n = rnd.randint(1, len(old["data"]))
            p = dict(p, data=old["data"][-n:] + p["data"], seq=p["seq"] - n)
            if len(p["data"]) > 65000:
                p = dict(p, data=p["data"][n:], seq=p["seq"] + n)
        last[key(p)] = p
        out.append(p)
    return out


def mixed(packets, rnd):
    return reorder(duplicate(overlap(split(packets, rnd), rnd), rnd), rnd)


def without_sums(packets, _rnd):
    """A link that sums nothing up. One in 65536 segments has the right sum all the same."""
    return [dict(p) if i in (4, 5) else dict(p, sum=0) for i, p in enumerate(packets)]


def with_wrong_sums(packets, rnd):
    """A sender that leaves anything in the field, and is right by chance once."""
    out, sent = [], {}
    for p in split(packets, rnd):
        sent[key(p)] = sent.get(key(p), 0) + 1
        out.append(dict(p) if sent[key(p)] == 20 else dict(p, sum=0xbeef))
    return out


LOSSLESS = (split, merge, reorder, duplicate, overlap, mixed, without_sums, with_wrong_sums)


# --- something is lost ---

def drop(packets, rnd):
    """A few segments are not in the capture; the ACKs for them are."""
    return [p for i, p in enumerate(packets)
            if i < 8 or not p["data"] or rnd.random() > 0.05 or p["flags"] & (w.SYN | w.FIN)]


def late(packets, rnd):
    return packets[len(packets) // 3 + rnd.randint(0, 5):]


def hole(packets, rnd):
    """Nothing at all of the middle."""
    at = len(packets) // 2 + rnd.randint(0, 5)
    return packets[:at] + packets[at + max(3, len(packets) // 10):]


def broken(packets, rnd):
    """A third of the payload octets' packets are overwritten: rubbish under good checksums."""
    return [dict(p, data=rnd.randbytes(len(p["data"]))) if rnd.random() < 0.3 else p
            for p in packets]


def messages(objs):
    out = {}
    for m in t.of_kind(objs, "message"):
        out.setdefault((m["conn"], m["dir"]), []).append(
            (m["op"], m["bytes"], m.get("stag"), m.get("to"), m.get("msn"), m.get("sink_to")))
    return out


def is_subsequence(part, whole):
    it = iter(whole)
    return all(x in it for x in part)


def shows_hole(packets, name):
    """Whether anything behind the hole tells of it: both ends of a single connection go on."""
    kept = hole([dict(p, at=i) for i, p in enumerate(packets)], random.Random(name + "hole"))
    gone = {i for i in range(len(packets))} - {p["at"] for p in kept}
    ends = {key(p) for p in kept if gone and p["at"] > max(gone)}
    return len({key(p) for p in packets}) == 2 and len(ends) == 2


class Twist:
    def __init__(self, tool, folder):
        self.tool, self.dir, self.faults, self.runs = tool, folder, [], 0

    def run(self, packets, **how):
        path = os.path.join(self.dir, "twisted.pcap")
        w.write(path, packets, **how)
        self.runs += 1
        return t.run(self.tool, path)

    def same(self, name, want, packets, **how):
        got = messages(self.run(packets, **how))
        if got != want:
            bad = [k for k in set(got) | set(want) if got.get(k) != want.get(k)]
            self.faults.append(f"{name}: other messages in {sorted(bad)}")

    def lossless(self, name, packets, want, plain):
        for twist in LOSSLESS:
            rnd = random.Random(name + twist.__name__)
            self.same(f"{name} {twist.__name__}", want,
                      spread([dict(p) for p in twist([dict(p) for p in packets], rnd)]))
        v6 = len(packets[0]["src"]) == 16
        rnd = random.Random(name)
        link = rnd.choice(sorted(w.LINKS))
        ext = rnd.choice((None, "hop", "dst", "frag")) if v6 else None
        form = rnd.choice(("pcap", "be", "ns", "ng"))
        self.same(f"{name} as {link} {ext} {form}", plain, packets, link=link, ext=ext, form=form)
        frag = 1480 if any(len(p["data"]) > 8000 for p in packets) else rnd.choice((24, 64, 512))
        if all(len(p["data"]) < 65000 for p in packets):
            self.same(f"{name} in fragments of {frag}", plain, packets, link=link, ext=ext and "dst",
                      frag=frag, rnd=rnd)

    def lossy(self, name, packets, want):
        for twist in (drop, late, hole, broken):
            rnd = random.Random(name + twist.__name__)
            objs = self.run(spread([dict(p) for p in twist([dict(p) for p in packets], rnd)]))
            got = messages(objs)
            if twist is broken:
                continue  # no crash, and every line an object
            told = {(g["conn"], g["dir"]) for g in t.of_kind(objs, "gap")}
            if twist is hole and got != want and not told and shows_hole(packets, name):
                self.faults.append(f"{name} hole: messages are gone without a word")
            if twist is drop:
                for k, v in want.items():
                    if got.get(k, []) != v and k not in told:
                        self.faults.append(f"{name} drop: {k} changed, and nothing was told of it")
        for snap in (60, 96, 128, 200):
            self.run(packets, snap=snap)
        objs = self.run(packets, snap=200)
        if any(g["reason"] == "sync" for g in t.of_kind(objs, "gap")):
            return
        got = {k: [m[:1] for m in v] for k, v in messages(objs).items()}
        if got != {k: [m[:1] for m in v] for k, v in want.items()} and not t.of_kind(objs, "gap"):
            self.faults.append(f"{name} snaplen: messages are gone without a word")

    def check(self, name, path):
        packets = w.read(path)
        if not packets or any(p["wire"] != len(p["data"]) for p in packets):
            return  # cut by a snaplen of its own
        plain = messages(t.run(self.tool, path))
        packets = [p for p in packets]
        want = messages(self.run(spread([dict(p) for p in packets])))
        if want != plain and not name.startswith(("nvme-super", "super-send")):
            self.faults.append(f"{name}: rewritten it shows other messages")
        # Where octets are missing already, what is found depends on how the rest is cut.
        if not name.startswith(("nvme-super", "super-send", "midstream", "iser-read", "iser-write",
                                "raw-length", "crc-flip", "netem", "nocrc")):
            self.lossless(name, packets, want, plain)
        self.lossy(name, packets, want)


def main():
    tool, folder = sys.argv[1:3]
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else 10**9
    with tempfile.TemporaryDirectory() as d, t.captures(folder) as source:
        twist = Twist(tool, d)
        for name in sorted(n for n in os.listdir(source) if n.endswith(".pcap")):
            path = os.path.join(source, name)
            if os.path.getsize(path) <= limit:
                twist.check(name, path)
    print("\n".join(twist.faults) if twist.faults else f"{twist.runs} twisted captures: ok")
    sys.exit(1 if twist.faults else 0)


main()
