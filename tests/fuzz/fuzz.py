#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fuzzers' seeds, and how they are run.

fuzz.py seeds NAME FOLDER            writes the seeds of a fuzzer
fuzz.py replay PROGRAM NAME          seeds, and what was found once, through a program without an engine
fuzz.py run PROGRAM NAME SECONDS [CORPUS]
                                     through libFuzzer; new inputs go to CORPUS (beside the program), what
                                     is found to CORPUS-found

Seeds are made of the vector files, the captures and the documents; those that an engine found and that are
worth keeping are in seeds/NAME, inputs that once showed a fault in found/NAME.
"""

import glob
import lzma
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TESTS, "dump"))
import wire  # pylint: disable=wrong-import-position

LARGEST_CAPTURE = 100_000
ULPDUS = 12  # of each direction of a capture


def u16(v):
    return struct.pack("!H", v & 0xffff)


def u32(v):
    return struct.pack("!I", v & 0xffffffff)


def u64(v):
    return struct.pack("!Q", v & (1 << 64) - 1)


# --- vector files ---

def group(word):
    kind, _, n = word.partition(":")
    if kind == "zero":
        return bytes(int(n))
    if kind == "pattern":
        count, _, start = n.partition("@")
        return bytes((7 * i + 3) & 255 for i in range(int(start or 0), int(start or 0) + int(count)))
    return bytes.fromhex(word)


def vectors():
    """(keys of the cfg line, its kind first, octets) of each byte vector."""
    for path in sorted(glob.glob(os.path.join(TESTS, "rfc_vectors", "rfc*", "*.vec"))):
        cfg, octets = None, b""
        with open(path, encoding="utf-8") as f:
            for line in f:
                words = line.split()
                if words[:1] == ["play"]:
                    break
                if words[:1] == ["cfg"]:
                    cfg = dict([("kind", words[1])] + [w.split("=") for w in words[2:]])
                if words[:1] in (["="], ["<"]):
                    octets += b"".join(group(w) for w in words[1:])
        if cfg is not None:
            yield cfg, octets


# --- captures ---

def capture_data(path):
    if path.endswith(".xz"):
        with lzma.open(path) as f:
            return f.read()
    with open(path, "rb") as f:
        return f.read()


def streams():
    """The octets of both directions of the first connections of each smaller capture, from the SYN on, as
    far as they came in order: [(initiator's, responder's)]."""
    for path in sorted(glob.glob(os.path.join(TESTS, "captures", "*.pcap"))):
        if os.path.getsize(path) > LARGEST_CAPTURE:
            continue
        ways, order = {}, []
        for record in wire.records(path):
            try:
                p = wire.parse(*record)
            except (KeyError, struct.error, IndexError):
                continue
            if p is None:
                continue
            key = (p["src"], p["sport"], p["dst"], p["dport"])
            if p["flags"] & wire.SYN:
                ways[key] = [p["seq"] + 1 & 0xffffffff, b""]
                if not p["flags"] & wire.ACK:
                    order.append(key)
            elif key in ways and ways[key][0] == p["seq"] and p["data"]:
                ways[key][0] = p["seq"] + len(p["data"]) & 0xffffffff
                ways[key][1] += p["data"]
        for src, sport, dst, dport in order[:2]:
            back = ways.get((dst, dport, src, sport), [0, b""])[1]
            yield ways[src, sport, dst, dport][1], back


def frame_len(stream):
    return 20 + struct.unpack("!H", stream[18:20])[0] if len(stream) >= 20 else len(stream)


def fpdus(stream, markers):
    """ULPDUs of a stream without Markers."""
    found, at = [], 0
    while not markers and at + 2 <= len(stream) and len(found) < ULPDUS:
        n = struct.unpack("!H", stream[at:at + 2])[0]
        if at + 2 + n > len(stream):
            break
        found.append(stream[at + 2:at + 2 + n])
        at += 2 + n + (2 - n) % 4 + 4
    return found


def halves():
    """(octets of full operation, Markers, CRC) of each direction of each capture."""
    for a, b in streams():
        if len(a) < 20 or len(b) < 20 or a[:4] != b"MPA " or b[:4] != b"MPA ":
            continue
        crc = bool((a[16] | b[16]) & 0x40)
        yield a[frame_len(a):], bool(b[16] & 0x80), crc
        yield b[frame_len(b):], bool(a[16] & 0x80), crc


def all_ulpdus():
    for cfg, octets in vectors():
        if cfg["kind"] == "stream":
            yield fpdus(octets, cfg.get("markers", "0") != "0")
    for stream, markers, _ in halves():
        yield fpdus(stream, markers)


# --- seeds, by fuzzer ---

def some(n):
    """The same numbers in each run."""
    for i in range(n):
        yield random.Random(i)


def setup_cfg(markers=0, crc=1, rev=2, p2p=0, rtr=6, ird=16, ord_=16):
    return bytes([markers | crc << 1 | (rev == 2) << 2 | p2p << 3 | rtr << 4]) + u16(ird) + u16(ord_)


def seeds_mpa_setup():
    for cfg, octets in vectors():
        if cfg["kind"] == "startup":
            mine = setup_cfg(*(int(cfg.get(k, d)) for k, d in
                               (("markers", 0), ("crc", 1), ("rev", 2), ("p2p", 0))))
            yield bytes([cfg.get("us") == "initiator"]) + mine + u16(4) + u32(7) + octets
    for a, b in streams():
        yield b"\0" + setup_cfg() + u16(0) + u32(3) + a[:frame_len(a)]
        yield b"\1" + setup_cfg() + u16(0) + u32(3) + b[:frame_len(b) + 40]
    for r in some(60):
        ends = [setup_cfg(r.getrandbits(1), r.getrandbits(1), r.choice((1, 2)), r.getrandbits(1),
                          r.getrandbits(3), r.choice((0, 1, 16, 0x3fff)), r.choice((0, 1, 16, 0x3fff)))
                for _ in range(2)]
        yield (bytes([2 | r.choice((0, 4))]) + ends[0] + u16(r.choice((0, 4, 508, 512))) + ends[1] +
               u16(8) + u16(8) + u16(r.choice((0, 4, 508))))


def seeds_mpa_rx():
    for cfg, octets in vectors():
        if cfg["kind"] == "stream":
            flags = int(cfg.get("markers", 0)) | int(cfg.get("crc", 1)) << 1
            yield bytes([flags]) + u32(int(cfg.get("pos", 0))) + u32(5) + octets
    for stream, markers, crc in halves():
        yield bytes([markers | crc << 1]) + u32(0) + u32(9) + stream[:6000]
    for r in some(40):
        lens = [r.choice((0, 1, 2, 14, 18, 100, 506, 1440, 8000, 64768)) for _ in range(r.randrange(6))]
        edits = b"".join(u32(r.getrandbits(16)) + b"\1" for _ in range(r.choice((0, 0, 1))))
        yield (bytes([4 | r.getrandbits(2)]) + u32(r.getrandbits(32)) + u32(r.getrandbits(32)) +
               bytes([len(lens)]) + b"".join(map(u16, lens)) + edits)


def raw_step(ulpdu):
    return b"\0" + bytes([len(ulpdu)]) + ulpdu


def seeds_rdmap_rx():
    for found in all_ulpdus():
        steps = b"".join(raw_step(u) for u in found if len(u) < 256)
        if steps:
            yield u32(1) + steps
    for region in range(10):
        near = bytes([0, 16])
        yield u32(2) + b"\1" + bytes([region, 1]) + near + u16(16)
        for past in (0, 1, 2):  # up to the end, and beyond it
            yield u32(2) + b"\1" + bytes([region, 1, 1, 16]) + u16(16 + past)
            yield u32(2) + b"\3" + bytes([region]) + u32(9) + u64(0x900) + b"\1\x10" + u16(16 + past) + b"\7"
        yield u32(3) + b"\3" + bytes([region]) + u32(9) + u64(0x900) + near + u16(16) + b"\7"
        yield (u32(4) + b"\4" + bytes([region, 0, 3]) + near + u64(5) + u64(0) + u64(0) + u64(0) +
               b"\7")
        yield u32(5) + b"\6" + bytes([region, 0]) + u16(100) + b"\5\0" + u16(60) + b"\5\0" + u16(60)
        yield u32(6) + b"\2" + bytes([0x03, region]) + u16(30) + b"\1" + bytes([region, 1]) + near + u16(8)
    for r in some(60):
        yield u32(r.getrandbits(32)) + bytes(r.choices(range(10), k=1)) + r.randbytes(r.randrange(300))


def seeds_term():
    for found in all_ulpdus():
        for u in found:
            if len(u) >= 22 and u[1] & 15 == 7:
                yield u16(0) + u32(1) + u[18:]
                yield u16(12) + u32(1) + u[18:40]
    for control in (b"\x01\x00\xe0\0", b"\x11\x01\xc0\0", b"\x12\x05\xc0\0", b"\x20\x02\0\0",
                    b"\x10\x01\x07\0", b"\x21\x00\x03\0", b"\x11\x01\x40\0", b"\x11\x01\x80\0"):
        yield u16(0) + u32(1) + control + u16(60) + b"\xc1" + bytes(13) + bytes(28)
        yield u16(0) + u32(1) + control + u16(60) + b"\x41" + bytes(17)


def seeds_devspec():
    spec = re.compile(r"\b(?:tap|pcap|shm|pair|sock):[^\s\"'`<>|)]*")
    found = set()
    for path in [os.path.join(TESTS, os.pardir, "README.md"),
                 *glob.glob(os.path.join(TESTS, os.pardir, "docs", "man", "*")),
                 *glob.glob(os.path.join(TESTS, "sim", "*.c")),
                 os.path.join(TESTS, os.pardir, "src", "api", "uiw.h")]:
        with open(path, encoding="utf-8") as f:
            found.update(spec.findall(f.read()))
    keys = ("ip=198.18.0.2/24", "ip=fd00::2/64", "gw=198.18.0.1", "gw=fe80::1", "mac=02:00:00:00:00:01",
            "mtu=1500", "vlan=7", "capture=x", "cc=cubic", "progress=polled", "crc=off", "markers=on",
            "rev=1", "ext=off", "ird=3", "ord=4", "spin=0", "rnr=5", "setup=6")
    found.update(f"{kind}:x,{','.join(keys)}" for kind in ("tap", "pcap", "shm", "pair", "sock"))
    found.update(f"{kind},{key}" for kind in ("tap:x,ip=198.18.0.2", "sock:fe80::1%lo", "shm:/x,ip=fd00::2")
                 for key in keys)
    for n in (15, 16, 17, 79, 80, 81, 255, 256):  # about the limits of names
        found.update((f"tap:{'x' * n},ip=fd00::2", f"shm:{'x' * n},ip=fd00::2", f"sock:,cc={'x' * n}",
                      f"sock:,capture={'x' * n}"))
    yield from (s.encode() for s in sorted(found))


def seeds_script():
    for path in sorted(glob.glob(os.path.join(TESTS, "rfc_vectors", "*", "*.vec"))):
        yield capture_data(path)
    for n in (27, 28, 29, 30):
        yield b"vector V1 x\nplay\n> send" + n * b" a=bb" + b"\n"
    yield b"vector V1 x\nplay\n> send" + b" " + b"00" * 39 + b" " + b"00" * 40 + b" " + b"00" * 41 + b"\n"
    yield b'vector V1 x\n< zero:9 pattern:5@2 "text" aabb\nplay\nshould > send "a b" k="c d" e=f\n'


def seeds_shm():
    def post(slot, n=60, ahead=0):
        return bytes([0, ahead, 3, slot]) + u16(n)

    def came_back(slot):
        return bytes([2, 0, 3, slot]) + u16(0)

    take, back, send, collect, doze = b"\1\0", b"\3\0", b"\5\x40", b"\7\0", b"\x09\1"
    yield b"".join(post(i) + take for i in range(64)) + 64 * back + post(3) + take
    yield 64 * send + doze + b"".join(came_back(i) for i in range(64)) + collect + send
    yield (post(1) + post(2, 9000, 1) + take + take + doze + back + back + take)
    yield send + send + came_back(0) + came_back(1) + collect + 3 * send + doze
    yield post(1) + take + post(1) + take  # a slot that we still have
    yield post(1, 13) + take
    yield bytes([0, 0, 2, 5]) + u32(70000) + take
    yield send + came_back(9) + collect
    yield b"".join(bytes([0, 0, 1, i, 0, 60, k]) + take for i in range(5) for k in range(3))
    for r in some(40):
        yield b"".join(r.choice((post(r.randrange(64)), came_back(r.randrange(64)), take, take, back, back,
                                 send, send, collect, doze)) for _ in range(r.randrange(200)))


def seeds_frame():
    for path in sorted(glob.glob(os.path.join(TESTS, "captures", "*.pcap"))):
        if os.path.getsize(path) > LARGEST_CAPTURE:
            continue
        for n, (_, link, frame, length) in enumerate(wire.records(path)):
            if link == 1 and n < 2:
                yield u16(length - len(frame)) + frame
                yield u16(60) + frame[:100]
                yield u16(0) + frame[:12] + b"\x81\0\0\7" + frame[12:60]
    eth = bytes(12)
    for opts in (b"\2\4\5\xa0", b"\2\1\0\0", b"\2\xff\0\0", b"\1\1\1\2", b"\0\0\0\0"):
        tcp = bytes(12) + b"\x60\x02" + bytes(6) + opts
        yield u16(0) + eth + b"\x08\0\x45\0" + u16(20 + len(tcp)) + bytes(5) + b"\6" + bytes(10) + tcp
        yield u16(0) + eth + b"\x86\xdd\x60\0\0\0" + u16(len(tcp)) + b"\6\x40" + bytes(32) + tcp
    for lie in (-8, -1, 0, 1, 8, 3000):  # lengths that are not what they should be
        for doff in (0x10, 0x40, 0x50, 0x60, 0xf0):
            tcp = bytes(12) + bytes([doff, 0x10]) + bytes(6)
            yield u16(0) + eth + b"\x08\0\x45\0" + u16(40 + lie) + bytes(5) + b"\6" + bytes(10) + tcp
            yield u16(0) + eth + b"\x86\xdd\x60\0\0\0" + u16(20 + lie) + b"\6\x40" + bytes(32) + tcp


def seeds_link():
    turn = b"\7\x12"
    for v6 in (0, 1):
        dial = b"\2" + bytes([v6])
        data = b"\3" + bytes([v6, 0x18, 0, 0]) + u16(100) + u16(1000)
        yield dial + data + data + turn
        for n in (1994, 2000, 5000, 11999):
            yield dial + b"\3" + bytes([v6, 0x18, 0, 0]) + u16(n) + u16(1000) + data + turn
            for lie in (b"\x10\0", b"\xf0\0", b"\x60\0", b"\x50\x46", b"\0\x45"):
                yield dial + b"\3" + bytes([8 | v6, 0x18, 0, 0]) + lie + u16(n) + u16(1000) + data + turn
            for off in (b"\x80", b"\xb0", b"\xc0", b"\xf1" + u32(5000), b"\xf1" + u32(1 << 15)):
                yield dial + b"\3" + bytes([4 | v6, 0x18, 0, 0]) + off + u16(n) + u16(1000) + data + turn
        yield dial + b"\6\0" + u16(9000) + turn + b"\5" + bytes([v6]) + u16(9000) + u16(3000) + u16(2000) + turn
        yield dial + data + b"\3" + bytes([v6, 0x11, 0, 0]) + u16(0) + u16(1000) + turn + b"\6\xc0" + u16(1) + turn
        yield dial + b"\6\xf0" + u16(1) + turn + data
        for flags in (0, 2, 4, 0x14, 0x12, 1, 0x11, 0x29, 0x3f):
            yield dial + b"\3" + bytes([v6, flags, 0, 0]) + u16(10) + u16(1000) + turn
        for off in (0x80, 0xb0, 0xb8, 0xc0, 0xef):
            yield dial + b"\3" + bytes([v6, 0x10, off, 0]) + u16(50) + u16(1000) + data + turn
            yield dial + b"\3" + bytes([v6, 0x10, 0, off]) + u16(50) + u16(1000) + turn
        for opts in (b"\x02\x04\0\0", b"\x05\x0a" + bytes(8), b"\xfd\0", b"\x05\xff", b"\x02\x01"):
            yield b"\2" + bytes([0x80 | v6, len(opts)]) + opts + turn
            yield dial + b"\3" + bytes([v6 | 2, 0x10, 0, 0, len(opts)]) + opts + u16(5) + u16(1000) + turn
    arp = u16(1) + u16(0x800) + b"\6\4" + u16(1) + bytes(6) + bytes((198, 18, 0, 1)) + bytes(6) + bytes((198, 18, 0, 2))
    yield b"\1\6" + bytes([len(arp)]) + arp + turn
    echo = b"\x45\0" + u16(48) + u32(0) + b"\x40\1\0\0" + bytes((198, 18, 0, 1, 198, 18, 0, 2)) + b"\x08" + bytes(27)
    yield b"\1\0" + bytes([len(echo)]) + echo + turn
    nd = b"\x60\0\0\0" + u16(32) + b"\x3a\xff" + bytes(15) + b"\1" + b"\xff\2" + bytes(13) + b"\1\x87" + bytes(31)
    yield b"\1\1" + bytes([len(nd)]) + nd + turn
    for how in range(4):
        for way in (0, 1):
            for length in (0, 13, 66000, 1 << 20):  # of a frame in the slot that is due
                yield b"\0\1\2\0" + u64(1 << 48 | length) + turn
            yield b"\2\0" + b"\0" + bytes([way, 0, how]) + u64(0xffff << 48 | 3) + turn + b"\6\0" + u16(3000) + turn
    for r in some(40):
        yield r.randbytes(r.randrange(400))


def seeds_conn():
    turn = b"\x09\x10"
    for flags in range(8):
        yield bytes([flags])
    for region in range(15):
        near = u16(16) + b"\0"
        yield b"\0\x02" + bytes([region, 1]) + near + u16(40) + turn
        for past in (0, 1, 2):  # up to the end, and beyond it
            yield b"\1\x02" + bytes([region, 0]) + u16(40) + b"\1" + u16(40 + past) + turn
        yield b"\4\x04" + bytes([region]) + u16(9) + u16(9) + u16(64) + near + turn
        yield b"\0\x05" + bytes([region]) + near + b"\0\1" + u64(1) + u64(0) + turn
        yield b"\0\x03" + bytes([3, region]) + u16(40) + b"\x02" + bytes([region, 1]) + near + u16(40) + turn
    for action in range(16):
        yield b"\0\x07" + bytes([action]) + turn + b"\x06\0" + turn + b"\x07" + bytes([action]) + turn
        yield b"\5\x03\1\0" + u16(100) + b"\x07" + bytes([action]) + b"\x04\1" + u16(1) + u16(1) + u16(99)
    for found in all_ulpdus():
        steps = b"".join(b"\1\0" + bytes([len(u)]) + u for u in found if len(u) < 256)
        if steps:
            yield b"\0" + steps[:1500] + turn
    for octets in (b"\0\0\xff\xff", b"\xff" * 60, b"MPA ID Req Frame\x40\1\0\0"):
        yield b"\0\0" + bytes([len(octets)]) + octets + turn
    for end in (0xff, 0xf0):
        yield b"\0\x03\1\0" + u16(100) + b"\x0b" + bytes([end]) + turn
    for cut in (1, 7, 100):
        yield b"\1\x0a" + u16(cut) + b"\x03\1\0" + u16(2000) + b"\x02\0\1" + u16(9) + b"\0" + u16(700) + turn


def seeds_dump():
    for path in sorted(glob.glob(os.path.join(TESTS, "captures", "*"))):
        if path.endswith((".pcap", ".pcapng")) and os.path.getsize(path) <= LARGEST_CAPTURE / 4:
            yield b"\0" + capture_data(path)
    for text in ("size>8 op=send", "time<70ms", "!op=terminate conn=0", "stag=0x10 to>=5"):
        yield b"\3" + text.encode()


def write_seeds(name, folder):
    n = 0
    for n, octets in enumerate(globals()["seeds_" + name](), 1):
        with open(os.path.join(folder, f"seed-{n:04}"), "wb") as f:
            f.write(octets)
    return n


def kept(name):
    return [d for d in (os.path.join(HERE, "seeds", name), os.path.join(HERE, "found", name))
            if os.path.isdir(d)]


def replay(program, name):
    with tempfile.TemporaryDirectory() as folder:
        print(f"{write_seeds(name, folder)} seeds")
        done = subprocess.run([program, folder, *kept(name)], capture_output=True, text=True,
                              errors="replace", check=False)
        print(done.stdout[-2000:])
        if done.returncode != 0:
            print(f"status {done.returncode}\n{done.stderr[-6000:]}")
        return done.returncode != 0


def run(program, name, seconds, corpus=None):
    corpus = corpus or os.path.join(os.path.dirname(os.path.abspath(program)), "corpus-" + name)
    os.makedirs(corpus, exist_ok=True)
    # The first finding ends it, or it would pass with a report that nobody reads.
    env = {**os.environ, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(name, folder)
        return subprocess.run([program, corpus, folder, *kept(name), f"-max_total_time={seconds}",
                               "-timeout=120", "-max_len=20000", "-entropic=0",
                               f"-artifact_prefix={corpus}-found-"],
                              env=env, check=False).returncode != 0


def main():
    what, *args = sys.argv[1:]
    if what == "seeds":
        os.makedirs(args[1], exist_ok=True)
        print(f"{write_seeds(*args)} seeds")
        return 0
    return {"replay": replay, "run": run}[what](*args)


if __name__ == "__main__":
    sys.exit(main())
