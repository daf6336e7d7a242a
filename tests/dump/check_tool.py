#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_tool.py UIW-DUMP CAPTURES MAN-PAGE: options, filters, --write, standard input, broken files, SMB
Direct and Atomics (which no capture has); and the man page's examples show what the tool shows."""

import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile

import check_fields as cf
import dumptool as t
import wire as w

faults = []


def expect(ok, what):
    if not ok:
        faults.append(what)


def plain(tool, *args, stdin=None):
    return subprocess.run([tool, *map(str, args)], input=stdin, capture_output=True, timeout=60,
                          check=False)


def check_man(tool, captures, page):
    """Each '$ uiw-dump ...' in the page, followed by its output up to the end of the display."""
    with open(page, encoding="utf-8") as f:
        lines = f.read().split("\n")
    seen = 0
    for i, line in enumerate(lines):
        if not line.startswith("$ uiw-dump "):
            continue
        end = lines.index(".Ed", i)
        want = [x.removeprefix("\\&").replace("\\e", "\\") for x in lines[i + 1:end]]
        p = subprocess.run([tool, *shlex.split(line[2:])[1:]], cwd=captures, capture_output=True,
                           text=True, check=False)
        expect(p.stdout.rstrip("\n").split("\n") == want, f"man page: other output: {line}")
        seen += 1
    expect(seen >= 5, "the man page has lost its examples")


def keys_of(value, found):
    """The names of all fields, but for those that are data."""
    if isinstance(value, list):
        for x in value:
            keys_of(x, found)
    elif isinstance(value, dict):
        for k, x in value.items():
            found.add(k)
            if k == "ops":
                keys_of(list(x.values()), found)
            elif k not in ("sizes", "frame_kinds"):
                keys_of(x, found)


def check_documented(tool, captures, page):
    """Every field that --json writes stands in the man page's section."""
    with open(page, encoding="utf-8") as f:
        text = f.read()
    text = text[text.index(".Sh JSON"):text.index(".Sh EXIT")]
    found = set()
    for name in sorted(os.listdir(captures)):
        path = os.path.join(captures, name)
        if name.endswith(".pcap") and os.path.getsize(path) < 20000:
            keys_of(t.run(tool, "-x", path), found)
    missing = sorted(found - set(re.findall(r"[a-z0-9_]+", text)))
    expect(len(found) > 100 and not missing, f"man page: fields without a word: {missing}")


def check_readme(tool, readme):
    """The same for the README, whose examples begin at the source's root."""
    with open(readme, encoding="utf-8") as f:
        lines = f.read().split("\n")
    at = [i for i, x in enumerate(lines) if x.startswith("$ build/tools/uiw-dump ")]
    for i in at:
        end = lines.index("```", i)
        p = subprocess.run([tool, *shlex.split(lines[i][2:])[1:]], cwd=os.path.dirname(readme),
                           capture_output=True, text=True, check=False)
        expect(p.stdout.rstrip("\n").split("\n") == lines[i + 1:end], f"README: other output: {lines[i]}")
    expect(at, "the README has lost its example")


def check_arguments(tool, captures):
    some = os.path.join(captures, "rping-v4-64.pcap")
    for args, word in (([], "no file"), (["-qv", some], "-q is no option"), ([some, some], "more than"),
                       (["--color", "blue", some], "blue"), (["--verbose=3", some], "takes no value"),
                       (["-vi"], "-i needs a value"), (["--ver", some], "--ver is no option"),
                       (["--filter", "op=jump", some], "op=jump"), (["--write", "x", "-"], "a file"),
                       (["--filter", "colour=3", some], "colour=3"), (["--write", some, some], "two")):
        p = plain(tool, *args, stdin=b"")
        expect(p.returncode == 2 and word in p.stderr.decode(),
               f"wrong arguments {args}: {p.returncode} {p.stderr}")
    for args in ([some + ".none"], ["-f", "tcp prot 3", some]):
        p = plain(tool, *args, stdin=b"")
        expect(p.returncode == 1 and p.stderr, f"{args}: exit {p.returncode}")
    expect(plain(tool, "--help").returncode == 0, "--help fails")
    expect(re.fullmatch(rb"uiw-dump \d[\d.]*\n", plain(tool, "--version").stdout), "--version fails")
    for args in (["--help"], ["--version"], [some]):
        with open("/dev/full", "wb") as full:
            p = subprocess.run([tool, *args], stdout=full, stderr=subprocess.PIPE, check=False)
        expect(p.returncode == 1 and b"standard output" in p.stderr, f"{args} on a full disk: {p.returncode} {p.stderr}")
    text = plain(tool, some).stdout
    expect(b"\033[" not in text, "colour in a pipe")
    expect(b"\033[" in plain(tool, "--color", "always", some).stdout, "no colour when asked")
    with open(some, "rb") as f:
        data = f.read()
    expect(plain(tool, "-", stdin=data).stdout == text, "standard input shows something else")
    expect(plain(tool, "-f", "tcp port 7174", some).stdout == text, "-f loses packets")
    expect(not t.of_kind(t.run(tool, "-f", "tcp port 1", some), "message"), "-f filters nothing")


def check_empty(tool, captures, d):
    """Where there is nothing to tell, that is told."""
    some = os.path.join(captures, "rping-v4-64.pcap")
    odd = os.path.join(d, "odd.pcap")
    with open(some, "rb") as f:
        data = f.read()
    for octets, args, word in ((data, ["--filter", "conn=7"], b"none of 70 messages"),
                               (data[:24], [], b"no frames"),
                               (data.replace(b"\x08\x00\x45", b"\x88\x64\x45"), [], b"no TCP")):
        with open(odd, "wb") as f:
            f.write(octets)
        p = plain(tool, *args, odd)
        expect(p.returncode == 0 and word in p.stdout and p.stdout.count(b"\n") == 1, f"{word}: {p}")


def check_cut_headers(tool, captures, d):
    """Behind a snaplen: no field is made up, and what answers what is seen by what is left of it."""
    path = os.path.join(d, "cut.pcap")
    for name in ("rping-v4-64", "pt-atomic", "rtr-read", "rping-v6-100", "term-both", "op-crc-all"):
        packets = w.read(os.path.join(captures, name + ".pcap"))
        w.write(path, packets)
        whole = {m["frame"]: m for m in t.of_kind(t.run(tool, path), "message")}
        for snap in (82, 86, 90, 96, 104, 112, 120, 132, 150):
            w.write(path, packets, snap=snap)
            cut = t.run(tool, path)
            for m in t.of_kind(cut, "message"):
                want = whole.get(m["frame"], {})
                wrong = [k for k in m if k in want and m[k] != want[k]
                         and k not in ("crc", "missing", "upper", "errors", "first_error")]
                expect(not wrong or m["op"] != want["op"],
                       f"{name} to {snap}: {wrong} of {m['op']} in frame {m['frame']}")
                if m["op"] == "read_response" and "op" in want and not t.of_kind(cut, "gap"):
                    expect("latency_ns" in m, f"{name} to {snap}: frame {m['frame']}: no latency")
            text = plain(tool, path).stdout.decode()
            expect("into 0x00000000 0x0 " not in text or name == "rtr-read",
                   f"{name} to {snap}: a Read of what was not captured")
            if "read_request    ?" in text:
                expect("not captured" in plain(tool, "--summary", path).stdout.decode(), "no word of it")
                expect(not t.of_kind(t.run(tool, "--filter", "op=read_request stag=0", path), "message")
                       or name == "rtr-read", f"{name} to {snap}: STag 0 matches")


def check_broken(tool, captures, d):
    with open(os.path.join(captures, "rping-v4-64.pcap"), "rb") as f:
        data = f.read()
    path = os.path.join(d, "broken.pcap")
    for n in (0, 3, 20, 24, 30, 41, 1000, len(data) - 1):
        with open(path, "wb") as f:
            f.write(data[:n])
        p = plain(tool, path)
        expect(p.returncode in (0, 1) and (p.returncode == 0) == (n == 24),
               f"a file cut at {n}: exit {p.returncode}")
    with open(path, "wb") as f:
        f.write(data[:32] + b"\xff" * 4 + data[36:])
    expect(plain(tool, path).returncode == 1, "an impossible frame length is not told")


def check_filters(tool, captures):
    some = os.path.join(captures, "rping-persistent-3.pcap")
    everything = t.of_kind(t.run(tool, some), "message")

    def count(text):
        return len(t.of_kind(t.run(tool, "--filter", text, some), "message"))

    for text, test in (
            ("conn=1", lambda m: m["conn"] == 1), ("conn=0,2", lambda m: m["conn"] != 1),
            ("!conn=0,2", lambda m: m["conn"] == 1), ("op=send", lambda m: m["op"] == "send"),
            ("op!=send", lambda m: m["op"] != "send"), ("dir=s2c", lambda m: m["dir"] == "s2c"),
            ("size>=200", lambda m: max(m["bytes"], m.get("length", 0)) >= 200),
            ("size<200", lambda m: max(m["bytes"], m.get("length", 0)) < 200),
            ("size=16..100", lambda m: 16 <= max(m["bytes"], m.get("length", 0)) <= 100),
            ("frame<=20 op=read_response", lambda m: m["frame"] <= 20 and m["op"] == "read_response"),
            ("time=..0.1", lambda m: m["since_start"] <= 0.1), ("port=7174", lambda m: True),
            ("host=10.77.0.1", lambda m: True), ("host=10.77.0.9", lambda m: False),
            ("error", lambda m: m.get("errors", 0) > 0 or m["op"] == "terminate"),
            ("latency>0", lambda m: m.get("latency_ns", 0) > 0)):
        want = sum(map(test, everything))
        expect(count(text) == want, f"filter {text}: {count(text)} messages, expected {want}")
    stag = next(m["stag"] for m in everything if "stag" in m)
    expect(count(f"stag={stag}") > 0, "filter stag finds nothing")


def check_write(tool, captures, d):
    path = os.path.join(d, "written.pcap")
    some = os.path.join(captures, "rping-v4-4096.pcap")
    expect(plain(tool, "--write", path, some).returncode == 0, "--write fails")
    expect(plain(tool, path).stdout == plain(tool, some).stdout, "--write loses something")
    text = "op=read_response conn=0"
    expect(plain(tool, "--filter", text, "--write", path, some).returncode == 0, "--write fails")
    want = t.of_kind(t.run(tool, "--filter", text, some), "message")
    got = [m for m in t.of_kind(t.run(tool, path), "message") if m["op"] == "read_response"]
    expect([m["bytes"] for m in got] == [m["bytes"] for m in want], "--write: other messages")
    expect(os.path.getsize(path) < os.path.getsize(some), "--write leaves nothing out")


def fpdu(ulpdu):
    body = len(ulpdu).to_bytes(2, "big") + ulpdu
    return body + bytes(-len(body) % 4 + 4)


def send(msn, data):
    return fpdu(b"\x41\x43" + bytes(8) + struct.pack("!II", msn, 0) + data)


def made(d, port, parts):
    """A capture of one connection to that port; parts are (direction, octets)."""
    f = w.Flow(40000, port)
    f.open()
    f.add(0, cf.set_up(False, 0, 0))
    f.add(1, cf.set_up(True, 0, 0))
    for direction, data in parts:
        f.add(direction, data)
    f.close()
    path = os.path.join(d, "made.pcap")
    w.write(path, f.packets)
    return path


def check_smb(tool, d):
    negotiate = struct.pack("<HHHHIII", 0x100, 0x100, 0, 10, 1364, 8192, 1048576)
    answer = struct.pack("<HHHHHHIIIII", 0x100, 0x100, 0x100, 0, 255, 255, 0, 1048576, 8192, 8192,
                         1048576)
    smb2 = b"\xfeSMB" + struct.pack("<HHIH", 64, 0, 0, 3) + bytes(50)
    data = struct.pack("<HHHHIII", 10, 1, 0, 0, 0, 24, len(smb2)) + bytes(4) + smb2
    objs = t.run(tool, made(d, 445, [(0, send(1, negotiate)), (1, send(1, answer)),
                                     (0, send(2, data))]))
    notes = [m.get("upper", "") for m in t.of_kind(objs, "message")]
    expect("Negotiate Request" in notes[0] and "Negotiate Response" in notes[1]
           and "TREE_CONNECT" in notes[2], f"SMB Direct: {notes}")
    objs = t.run(tool, made(d, 9999, [(0, send(1, data))]))
    expect("SMB2" in t.of_kind(objs, "message")[0].get("upper", ""), "SMB2 is not known by content")


def check_atomic(tool, d):
    def request(msn, op, ident, cmp_data, cmp_mask):
        return fpdu(b"\x41\x4a" + bytes(4) + struct.pack("!III", 1, msn, 0) + struct.pack(
            "!IIIQQQQQ", op, ident, 0x1234, 0x1000, 5, 0, cmp_data, cmp_mask))

    def response(msn, ident):
        return fpdu(b"\x41\x4b" + bytes(4) + struct.pack("!III", 3, msn, 0) + struct.pack(
            "!IQ", ident, 77))

    ones = 2**64 - 1
    objs = t.run(tool, made(d, 7999, [(0, request(1, 0, 9, 0, ones)), (1, response(1, 9))]))
    m = t.of_kind(objs, "message")
    expect([x["op"] for x in m] == ["atomic_request", "atomic_response"], "Atomics are not shown")
    expect(m[1].get("latency_ns") == 10000 and int(m[1]["original"], 16) == 77, "Atomic Response")
    expect(not t.of_kind(objs, "verdict"), "verdicts on good Atomics")
    objs = t.run(tool, made(d, 7999, [(0, request(1, 1, 9, 0, ones)), (0, request(2, 0, 9, 3, 4)),
                                      (1, response(1, 8))]))
    got = t.tally(objs, "verdict", "requirement")
    expect(got == {"EXT-7306-10-01": 1, "EXT-7306-5.2.1-06": 1, "EXT-7306-5.2.1-03": 1},
           f"verdicts on bad Atomics: {got}")
    imm = fpdu(b"\x41\x48" + bytes(4) + struct.pack("!III", 0, 1, 0) + bytes(7))
    got = t.tally(t.run(tool, made(d, 7999, [(0, imm)])), "verdict", "requirement")
    expect(got == {"EXT-7306-6.3-05": 1}, f"verdicts on a short Immediate: {got}")


def check_fragments(tool, d):
    """IP fragments are put together; --write takes all of a message's; a missing one is told of."""
    for v6 in (False, True):
        f = w.Flow(40000, 7999, v6=v6)
        f.open()
        f.add(0, cf.set_up(False, 0, 0))
        f.add(1, cf.set_up(True, 0, 0))
        for msn in range(1, 5):
            f.add(0, send(msn, bytes(1000)))
            f.add(1)
        f.close()
        path, part = os.path.join(d, "fragments.pcap"), os.path.join(d, "part.pcap")
        w.write(path, f.packets, frag=256)
        m = t.of_kind(t.run(tool, path), "message")
        expect([x["msn"] for x in m] == [1, 2, 3, 4], f"fragments: {m}")
        expect([x["frame"] for x in m] == [10, 16, 22, 28], "fragments: the last one completes")
        plain(tool, "--filter", "size>0 frame=16", "--write", part, path)
        expect([x["msn"] for x in t.of_kind(t.run(tool, part), "message")] == [2],
               "fragments: --write loses some")
        gone = [x for i, x in enumerate(w.records(path)) if i != 13]
        with open(path, "rb") as file:
            head = file.read(24)
        with open(path, "wb") as file:
            file.write(head + b"".join(struct.pack(
                "<4I", ns // 10**9, ns % 10**9 // 1000, len(octets), n) + octets
                for ns, _, octets, n in gone))
        objs = t.run(tool, path)
        expect([x["msn"] for x in t.of_kind(objs, "message")] == [1, 3, 4], "fragments: one is missing")
        expect(t.of_kind(objs, "gap") and objs[-1]["lost_fragments"] == 4,
               "fragments: a missing one is not told of")
        expect(b"IP fragments" in plain(tool, path).stdout, "fragments: the text says nothing")


def check_depth(tool, d):
    """More Reads than the Reply's IRD allows; a response that answers none; one of a wrong length."""
    def read(msn, size):
        return fpdu(b"\x41\x41" + bytes(4) + struct.pack("!III", 1, msn, 0) + struct.pack(
            "!IQIIQ", 7, 0x100, size, 8, 0x200))

    f = w.Flow(40000, 7999)
    f.open()
    word = struct.pack("!HH", 1, 1)
    f.add(0, cf.REQ + bytes([0x10, 2, 0, 4]) + word)
    f.add(1, cf.REP + bytes([0x10, 2, 0, 4]) + word)
    f.add(0, read(1, 4))
    f.add(0, read(2, 4))
    f.add(1, fpdu(b"\xc1\x42" + struct.pack("!IQ", 7, 0x100) + bytes(4)))
    f.add(1, fpdu(b"\xc1\x42" + struct.pack("!IQ", 7, 0x100) + bytes(3)))
    f.add(1, fpdu(b"\xc1\x42" + struct.pack("!IQ", 7, 0x100) + bytes(4)))
    path = os.path.join(d, "depth.pcap")
    w.write(path, f.packets)
    got = t.tally(t.run(tool, path), "verdict", "requirement")
    expect(got == {"RDMAP-5040-6.1-04": 1, "RDMAP-5040-5.2.1-11": 1, "RDMAP-5040-5.2-01": 1},
           f"verdicts on Reads: {got}")


def with_markers(sizes, most):
    """A stream of Sends of these sizes in turn, CRC and Markers on; how many there are, and where they
    begin."""
    stream, starts = b"", []
    while len(stream) < most:
        msn = len(starts) + 1
        size = sizes[msn % len(sizes)]
        starts.append(len(stream))
        body = struct.pack("!H", size + 18) + b"\x41\x43" + bytes(8) + struct.pack("!II", msn, 0) + bytes(
            (i * 7 + msn) & 255 for i in range(size))
        body += bytes(-len(body) % 4)
        start, out, left = len(stream), b"", body + bytes(4)
        head = start + (4 if start % 512 == 0 else 0)
        while left:
            if (start + len(out)) % 512 == 0:
                at = start + len(out)
                out += struct.pack("!HH", 0, 0 if at + 4 == head else at - head)
            n = min(len(left), 512 - (start + len(out)) % 512)
            out, left = out + left[:n], left[n:]
        stream += out[:-4] + cf.crc32c(out[:-4])
    return stream, starts


def check_wrong_guess(tool, d):
    """It begins with Sends too short to have a Marker: that there are some is seen by the CRC behind."""
    stream, starts = with_markers((16, 16, 16, 3000), 60000)
    path = os.path.join(d, "guess.pcap")
    f = w.Flow(40000, 7999)
    begin = next(s for i, s in enumerate(starts) if i % 4 == 3 and i > 8 and s % 512 < 200 and s % 512 > 8)
    for i in range(begin, len(stream), 1000):
        f.add(0, stream[i:i + 1000])
    w.write(path, f.packets)
    objs = t.run(tool, path)
    got, due = len(t.of_kind(objs, "message")), sum(s >= begin for s in starts)
    expect(got > due - 8 and not t.of_kind(objs, "verdict"), f"wrong guess: {got} messages of {due}")
    expect(any("Markers" in g["text"] for g in t.of_kind(objs, "gap")), "wrong guess: no word of Markers")


def check_midstream_markers(tool, d):
    """No set-up, Markers on: found by the Markers."""
    stream, starts = with_markers((200,), 20000)
    msn = len(starts)
    f = w.Flow(40000, 7999)
    cut = stream[777:]
    for i in range(0, len(cut), 1000):
        f.add(0, cut[i:i + 1000])
    path = os.path.join(d, "markers.pcap")
    w.write(path, f.packets)
    objs = t.run(tool, path)
    gaps = t.of_kind(objs, "gap")
    expect(gaps and "Markers" in gaps[0]["text"], f"not found by Markers: {gaps[:1]}")
    expect(len(t.of_kind(objs, "message")) > msn - 8 and not t.of_kind(objs, "verdict"),
           f"{len(t.of_kind(objs, 'message'))} messages of {msn} behind the Markers")


def main():
    tool, captures, page = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    with tempfile.TemporaryDirectory() as d:
        check_man(tool, captures, page)
        check_documented(tool, captures, page)
        check_readme(tool, os.path.abspath(os.path.join(captures, "..", "..", "README.md")))
        check_arguments(tool, captures)
        check_broken(tool, captures, d)
        check_empty(tool, captures, d)
        check_cut_headers(tool, captures, d)
        check_filters(tool, captures)
        check_write(tool, captures, d)
        check_smb(tool, d)
        check_atomic(tool, d)
        check_depth(tool, d)
        check_fragments(tool, d)
        check_midstream_markers(tool, d)
        check_wrong_guess(tool, d)
    text = plain(tool, "--json", os.path.join(captures, "raw-tagged.pcap")).stdout
    for line in text.splitlines():
        json.loads(line)
    print("\n".join(faults) if faults else "tool: ok")
    sys.exit(1 if faults else 0)


main()
