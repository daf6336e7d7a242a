# SPDX-License-Identifier: MIT
"""Captures as lists of packets: reading, changing and writing them in every form that uiw-dump takes.

A packet is a dict: ns, src, dst (packed addresses), sport, dport, seq, ack, flags, opts (TCP option
octets), data, and wire (length of the payload before a snaplen cut it; absent: all is there).
"""

import struct

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def checksum(data):
    if len(data) & 1:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


# --- reading ---

def records(path):
    """(ns, link, captured octets, length) of each frame of a classic pcap file."""
    with open(path, "rb") as f:
        data = f.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    nano = struct.unpack(order + "I", data[:4])[0] == 0xa1b23c4d
    link = struct.unpack(order + "I", data[20:24])[0] & 0xffff
    at = 24
    while at + 16 <= len(data):
        sec, frac, cap, length = struct.unpack(order + "4I", data[at:at + 16])
        yield sec * 10**9 + frac * (1 if nano else 1000), link, data[at + 16:at + 16 + cap], length
        at += 16 + cap


def parse(ns, link, frame, length):
    """A packet, or None when it is not TCP or its checksum would make a receiver drop it."""
    skip = {1: 14, 276: 20, 113: 16, 101: 0}[link]
    ip = frame[skip:]
    if not ip:
        return None
    if ip[0] >> 4 == 4:
        total = struct.unpack("!H", ip[2:4])[0] or length - skip
        hlen, proto, src, dst = (ip[0] & 15) * 4, ip[9], ip[12:16], ip[16:20]
    elif ip[0] >> 4 == 6:
        total = struct.unpack("!H", ip[4:6])[0] + 40
        hlen, proto, src, dst = 40, ip[6], ip[8:24], ip[24:40]
    else:
        return None
    if proto != 6:
        return None
    tcp = ip[hlen:total]
    sport, dport, seq, ack, off, flags = struct.unpack("!HHIIBB", tcp[:14])
    doff = (off >> 4) * 4
    return {"ns": ns, "src": src, "dst": dst, "sport": sport, "dport": dport, "seq": seq,
            "ack": ack, "flags": flags, "opts": tcp[20:doff], "data": tcp[doff:],
            "wire": total - hlen - doff, "raw": tcp, "v6": len(src) == 16}


def is_damaged(p):
    """A checksum that is neither right nor what an offloading sender leaves."""
    if p["wire"] != len(p["data"]):
        return False
    tcp = p["raw"]
    head = p["src"] + p["dst"] + struct.pack("!IBBH" if p["v6"] else "!xBH", *(
        (len(tcp), 0, 0, 6) if p["v6"] else (6, len(tcp))))
    field = struct.unpack("!H", tcp[16:18])[0]
    return checksum(head + tcp) != 0 and field != ~checksum(head) & 0xffff


def read(path):
    out = []
    for rec in records(path):
        p = parse(*rec)
        if p and not is_damaged(p):
            out.append(p)
    return out


# --- writing ---

def tcp_segment(p):
    data = p["data"]
    opts = p.get("opts", b"")
    head = struct.pack("!HHIIBBHHH", p["sport"], p["dport"], p["seq"] & 0xffffffff,
                       p["ack"] & 0xffffffff, (20 + len(opts)) // 4 << 4, p["flags"], 65535, 0, 0)
    seg = head + opts + data
    if len(p["src"]) == 16:
        pseudo = p["src"] + p["dst"] + struct.pack("!IBBH", len(seg), 0, 0, 6)
    else:
        pseudo = p["src"] + p["dst"] + struct.pack("!xBH", 6, len(seg))
    right = checksum(pseudo + seg)
    return seg[:16] + struct.pack("!H", p.get("sum", right)) + seg[18:]


EXT = {"hop": (0, bytes([6, 0, 1, 4, 0, 0, 0, 0])), "dst": (60, bytes([6, 0, 1, 4, 0, 0, 0, 0])),
       "frag": (44, bytes([6, 0, 0, 0, 0, 0, 0, 1]))}


def ip_packet(p, ext=None):
    seg = tcp_segment(p)
    if len(p["src"]) == 16:
        first, head = 6, b""
        if ext:
            first, head = EXT[ext]
        n = len(head) + len(seg)
        return struct.pack("!IHBB", 6 << 28, n if n < 65536 else 0, first, 64) + p["src"] + p[
            "dst"] + head + seg
    total = 20 + len(seg)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total if total < 65536 else 0, 1, 0x4000, 64, 6,
                       0, p["src"], p["dst"])
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + seg


def fragments(ip, most, ident):
    """An IP packet as fragments of most octets of payload."""
    v6 = ip[0] >> 4 == 6
    n = 40 if v6 else (ip[0] & 15) * 4
    head, body = ip[:n], ip[n:]
    if len(body) <= most:
        return [ip]
    out = []
    for at in range(0, len(body), most):
        part, more = body[at:at + most], at + most < len(body)
        if v6:
            ext = struct.pack("!BBHI", head[6], 0, at | more, ident)
            out.append(head[:4] + struct.pack("!HB", 8 + len(part), 44) + head[7:] + ext + part)
        else:
            h = head[:2] + struct.pack("!HHH", n + len(part), ident & 0xffff, more << 13 | at // 8) + head[
                8:10] + b"\0\0" + head[12:]
            out.append(h[:10] + struct.pack("!H", checksum(h)) + h[12:] + part)
    return out


LINKS = {"ether": 1, "vlan": 1, "qinq": 1, "sll": 113, "sll2": 276, "raw": 101, "null": 0, "loop": 108}


def frame(p, link="ether", ext=None):
    return ip_frame(p, ip_packet(p, ext), link)


def ip_frame(p, ip, link):
    v6 = len(p["src"]) == 16
    kind = b"\x86\xdd" if v6 else b"\x08\x00"
    mac = b"\x02\0\0\0\0\1\x02\0\0\0\0\2"
    if link == "ether":
        return mac + kind + ip + (b"\0" * max(0, 46 - len(ip)))
    if link == "vlan":
        return mac + b"\x81\0\0\x2a" + kind + ip
    if link == "qinq":
        return mac + b"\x88\xa8\0\x07\x81\0\0\x2a" + kind + ip
    if link == "sll":
        return struct.pack("!HHH8s", 0, 1, 6, b"\2\0\0\0\0\1\0\0") + kind + ip
    if link == "sll2":
        return kind + struct.pack("!HIHBB8s", 0, 1, 1, 0, 6, b"\2\0\0\0\0\1\0\0") + ip
    if link == "null":
        return struct.pack("<I", 30 if v6 else 2) + ip
    if link == "loop":
        return struct.pack("!I", 30 if v6 else 2) + ip
    return ip


def frames(packets, link, ext, frag, rnd):
    """(packet, frame), with IP fragments of at most frag octets: shuffled by rnd, some of them twice."""
    for i, p in enumerate(packets):
        parts = fragments(ip_packet(p, ext), frag, i) if frag else [ip_packet(p, ext)]
        if rnd and len(parts) > 1:
            early = parts[:-1] + [x for x in parts[:-1] if rnd.random() < 0.1]
            rnd.shuffle(early)
            parts = early + parts[-1:]
        for x in parts:
            yield p, ip_frame(p, x, link)


def write(path, packets, link="ether", ext=None, snap=None, form="pcap", frag=None, rnd=None):
    """form: pcap, or with big-endian header (be), nanoseconds (ns), or pcapng (ng)."""
    order = ">" if form == "be" else "<"
    out = []
    if form == "ng":
        out.append(struct.pack("<IIIHHqI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28))
        out.append(struct.pack("<IIHHII", 1, 20, LINKS[link], 0, 262144, 20))
    else:
        out.append(struct.pack(order + "IHHiIII", 0xa1b23c4d if form == "ns" else 0xa1b2c3d4, 2, 4,
                               0, 0, 262144, LINKS[link]))
    for p, f in frames(packets, link, ext, frag, rnd):
        n = len(f)
        f = f[:snap] if snap else f
        if form == "ng":
            pad = -len(f) % 4
            us = p["ns"] // 1000
            size = 32 + len(f) + pad
            out.append(struct.pack("<IIIIIII", 6, size, 0, us >> 32, us & 0xffffffff, len(f), n) + f
                       + b"\0" * pad + struct.pack("<I", size))
        else:
            sec, ns = divmod(p["ns"], 10**9)
            out.append(struct.pack(order + "4I", sec, ns if form == "ns" else ns // 1000, len(f),
                                   n) + f)
    with open(path, "wb") as file:
        file.write(b"".join(out))


# --- making ---

class Flow:
    """Two ends whose octets become packets."""

    def __init__(self, cport, sport, start=10**18, v6=False):
        self.addr = [bytes.fromhex("fd77" + "00" * 13 + "01"), bytes.fromhex("fd77" + "00" * 13 + "02")] \
            if v6 else [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]
        self.port = [cport, sport]
        self.seq = [1000, 5000]
        self.ns = start
        self.packets = []

    def add(self, d, data=b"", flags=ACK):
        self.ns += 10000
        self.packets.append({"ns": self.ns, "src": self.addr[d], "dst": self.addr[1 - d],
                             "sport": self.port[d], "dport": self.port[1 - d], "seq": self.seq[d],
                             "ack": self.seq[1 - d] if flags & ACK else 0, "flags": flags,
                             "data": data})
        self.seq[d] = (self.seq[d] + len(data) + (1 if flags & (SYN | FIN) else 0)) & 0xffffffff

    def open(self):
        self.add(0, flags=SYN)
        self.add(1, flags=SYN | ACK)
        self.add(0)

    def close(self):
        self.add(0, flags=FIN | ACK)
        self.add(1, flags=FIN | ACK)
        self.add(0)
