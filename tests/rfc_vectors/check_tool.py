#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_tool.py UIW-CONFORM VECTORS: what uiw-conform selects, prints and returns; and all the vectors
over a link in shared memory, between two processes. Needs no privilege."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ET

CONFORM, VECTORS = sys.argv[1:3]
WIRE = f"uiw-conform-{os.getpid()}"
PLAYER, PEER = "198.18.0.2", "198.18.0.1"
DEVICE = f"shm:/{WIRE},ip={PLAYER}/24"
FAULTS = 0


def expect(ok, what):
    global FAULTS
    if not ok:
        print(f"FAIL {what}")
        FAULTS += 1


def conform(*args, vectors=VECTORS):
    return subprocess.run([CONFORM, "--vectors", vectors, *args], capture_output=True, text=True)


def play(*args, vectors=VECTORS):
    return conform("--device", DEVICE, *args, PEER, vectors=vectors)


def listed(*args):
    done = conform("--list", *args)
    expect(done.returncode == 0, f"--list {args}: status {done.returncode}")
    return {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}


def proves(ident):
    for folder, _, names in os.walk(VECTORS):
        for name in names:
            if name.startswith(ident + "-") and name.endswith(".vec"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    return " ".join(line for line in f if line.startswith("proves"))
    return ""


def check_selection():
    every = listed()
    expect(len(every) > 230, f"{len(every)} files listed")
    for rfc in ("5040", "5041", "5044", "6581", "7306"):
        got = listed("--rfc", rfc)
        want = {i for i, r in every.items() if r == "rfc" + rfc}
        expect(set(got) == want and want, f"--rfc {rfc}: {sorted(set(got) ^ want)}")
    got = listed("--rfc", "6581", "--rfc", "7306")
    expect(set(got.values()) == {"rfc6581", "rfc7306"}, "--rfc given twice")
    got = listed("--section", "5040:7.2")
    want = {i for i in every if "RDMAP-5040-7.2-" in proves(i) or "RDMAP-5040-7.2." in proves(i)}
    expect(set(got) == want and want, f"--section: {sorted(set(got) ^ want)}")
    got = listed("--id", "V0[12]*", "--exclude", "V01?", "--exclude", "V022")
    expect(got and all(i.startswith("V02") and i != "V022" for i in got), f"--id: {sorted(got)}")


def check_formats():
    path = os.path.join(WORK, "out.xml")
    done = play("--id", "V15*", "--format", "junit", "--output", path)
    expect(done.returncode == 0, f"junit: status {done.returncode}: {done.stdout}{done.stderr}")
    suites = ET.parse(path).getroot()
    cases = suites.findall("./testsuite/testcase")
    expect(len(cases) == len(listed("--id", "V15*")), f"junit: {len(cases)} cases")
    expect(suites.find("testsuite").get("failures") == "0", "junit: failures")
    done = play("--id", "V154", "--color", "always")
    expect("\033[32mpass" in done.stdout, f"table in colour: {done.stdout!r}")
    done = play("--id", "V154")
    expect("\033" not in done.stdout and "V154" in done.stdout, "table without colour")
    done = play("--id", "V154", "--format", "plain")
    expect("pass rfc7306 V154 imm\n" in done.stdout, f"plain: {done.stdout!r}")


HEAD = "# SPDX-License-Identifier: MIT\nscenario {} name\ntext words\nproves RDMAP-5040-7.2-02\n"


def write_vector(ident, play_part, head=""):
    folder = os.path.join(WORK, "own", "rfc5040")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{ident}-name.vec"), "w", encoding="utf-8") as f:
        f.write(HEAD.format(ident) + head + "\nplay\n" + play_part)


def check_status():
    """The verdict on files that must fail."""
    own = os.path.join(WORK, "own")
    write_vector("X01", "tested recv=8x64\nsetup\n< send \"x\"\n! recv 2 limit=200\n> alive\n")
    write_vector("X02", "tested recv=8x64\nsetup\nshould > send limit=200\n> alive\n")
    write_vector("X03", "tested recv=8x64\nsetup\n! recv 1 limit=200\n", "level should\n")
    write_vector("X04", "tested recv=8x64\nsetup\nwire reorder=1\n")
    write_vector("X05", "tested recv=8x64\nsetup\n> alive\n")
    write_vector("X06", "tested recv=8x64\nsetup\n< send qn=5\n> terminate 1/1/00\n")
    path = os.path.join(WORK, "own.xml")
    for ident, plain, strict in (("X01", 1, 1), ("X02", 0, 1), ("X03", 0, 1), ("X04", 2, 2),
                                 ("X05", 0, 0), ("X06", 1, 1), ("none", 2, 2)):
        done = play("--id", ident, vectors=own)
        expect(done.returncode == plain, f"{ident}: status {done.returncode}, not {plain}")
        done = play("--id", ident, "--strict", vectors=own)
        expect(done.returncode == strict, f"{ident} --strict: status {done.returncode}")
    play("--format", "junit", "--output", path, vectors=own)
    suite = ET.parse(path).getroot().find("testsuite")
    expect((suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("6", "2", "1"),
           f"junit: {suite.attrib}")
    why = [f.get("message") for f in suite.iter("failure")]
    expect(any("1/2/01" in w and "1/1/00" in w for w in why), f"junit: {why}")
    done = conform("--device", DEVICE, PEER, vectors=os.path.join(WORK, "nothing"))
    expect(done.returncode == 2 and "none found" in done.stderr, f"no vectors: {done.stderr}")
    done = conform("--device", "shm:/x", PEER)
    expect(done.returncode == 2 and "device" in done.stderr, f"bad device: {done.stderr}")


def expect_trouble(done, *words):
    """One line that names what is wrong and what was expected."""
    lines = [line for line in done.stderr.splitlines() if "--help" not in line]
    expect(done.returncode == 2 and len(lines) == 1 and all(w in lines[0] for w in words),
           f"{done.args[3:]}: status {done.returncode}: {done.stderr!r}")


def check_usage():
    for args, words in ((("--timeout", "abc"), ("--timeout", "abc", "1..600000")),
                        (("--timeout", "0"), ("--timeout", "1..600000")),
                        (("--timeout", "-5"), ("--timeout", "1..600000")),
                        (("--port", "65536"), ("--port", "1..65535")),
                        (("--port", "0"), ("--port", "1..65535")),
                        (("--format", "xml"), ("xml", "table, plain or junit")),
                        (("--color", "maybe"), ("maybe", "auto, always or never")),
                        (("--cut", "1x"), ("--cut", "1x")), (("--pause", ""), ("--pause",)),
                        (("--rfc", "9999"), ("--list",)), (("--section", "x"), ("--list",)),
                        (("--output", "/nowhere/x"), ("/nowhere/x", "No such file")),
                        (("--bogus",), ("--bogus",)), (("--listen",), ("no PEER",))):
        expect_trouble(conform(*args, "127.0.0.1"), *words)
    expect_trouble(conform(), "PEER")
    expect_trouble(conform("--list", "--id", "nothing"), "--list")
    expect_trouble(conform("--responder", "--device", "shm:x"), "responder")
    for peer in ("127.0.0.1:abc", "127.0.0.1:0", "127.0.0.1:", "[::1]:", "[::1]:65536", "[::1",
                 "[127.0.0.1]:7174", "[::1]7174", "::1%nowhere", "a.invalid"):
        expect_trouble(conform(peer), peer, "address")
    expect_trouble(conform("fe80::1"), "fe80::1", "interface")
    for args in (["--vectors", VECTORS, "--list"], ["--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CONFORM, *args], stdout=full, text=True, stderr=subprocess.PIPE, check=False)
        expect_trouble(done, "standard output", "cannot write")
    done = conform("--version")
    expect(done.returncode == 0 and re.fullmatch(r"uiw-conform \d[\d.]*\n", done.stdout), f"--version: {done.stdout}")
    for ours, peer, kind in (("198.18.0.2/24", "[fd00::1]", "IPv6"), ("fd00::2", PEER, "IPv4"),
                             ("fd00::2", f"::ffff:{PEER}", "IPv4")):
        expect_trouble(conform("--device", f"shm:/{WIRE}-x,ip={ours}", peer), peer, f"no {kind}")


def check_paths():
    """A file is found however long its path is; one that cannot be read is named."""
    deep = os.path.join(WORK, *(["d" * 200] * 4))
    os.makedirs(os.path.join(deep, "rfc5040"))
    with open(os.path.join(deep, "rfc5040", "L1.vec"), "w", encoding="utf-8") as f:
        f.write(HEAD.format("L1") + "\nplay\ntested recv=8x64\nsetup\n> alive\n")
    done = conform("--list", vectors=deep)
    expect(done.stdout == "rfc5040 L1    name                   must   words\n",
           f"a long path: {done.stdout}{done.stderr}")
    os.symlink("nowhere", os.path.join(deep, "rfc5040", "L2.vec"))
    expect_trouble(conform("--list", vectors=deep), "/rfc5040/L2.vec: No such file")


def check_cut_names():
    """No name or text of a file is cut silently."""
    for n, (head, why) in enumerate(((f"text {'x ' * 300}\n", ": more than 399 characters"),
                                     (f"scenario {'Z' * 16} name\n", "want: scenario ID NAME, of"))):
        write_vector(f"Z{n}", "tested recv=8x64\nsetup\n> alive\n", head)
        done = play("--format", "plain", "--rfc", "5040", vectors=os.path.join(WORK, "own"))
        expect(why in done.stdout, f"{why}: {done.stdout}")


LIES = {
    "log without end": {"log": b"ok" + 20 * b"\nnothing"},
    "escapes": {"hello": b"ok \x1b[2J\x01\xff", "case": b"no: \x1b]0;x\x07\nskip rfc5040 X01\x00"},
}


def lie(c, answers):
    """Answers a question, or an MPA Request of the test by an accepting Reply."""
    asked = c.recv(20, socket.MSG_WAITALL)
    said = c.recv(int.from_bytes(asked[18:20], "big"), socket.MSG_WAITALL)
    question = said.removeprefix(b"uiw-conform ")
    answer = b"" if question == said else answers.get(question.split()[0].decode(), b"ok liar")
    c.sendall(b"MPA ID Rep Frame" + (b"\x40\1" if question == said else b"\x60\1") +
              len(answer).to_bytes(2, "big") + answer)


def serve(how):
    """A server that is no iWARP at all, or lies; returns its socket."""
    s = socket.create_server(("127.0.0.1", 0))

    def answer(c):
        if how == "garbage":
            c.sendall(bytes(range(256)) * 8)
        elif how == "flood":
            c.sendall(b"MPA ID Rep Frame\x40\x01\0\0" + bytes(range(256)) * 4000)
        elif how == "closes":
            c.close()
        elif how in LIES:
            lie(c, LIES[how])

    def loop():
        held = []
        while True:
            try:
                c = s.accept()[0]
            except OSError:
                return
            held.append(c)
            try:
                answer(c)
            except OSError:
                # The tool resets its first connection, which asks only whether anybody is there;
                # the one that counts is still to come.
                pass

    threading.Thread(target=loop, daemon=True).start()
    return s


def check_peers():
    """Peers that hang, close or speak nonsense: each file fails and says why, and the run ends."""
    for how, why in (("silent", "nothing came in time"), ("closes", "no Reply: TCP was"),
                     ("garbage", "no good Reply"), ("flood", "an FPDU came that MPA refuses")):
        with serve(how) as s:
            done = conform("--timeout", "300", "--id", "V001", "--format", "plain",
                           f"127.0.0.1:{s.getsockname()[1]}")
            expect(done.returncode == 1 and why in done.stdout,
                   f"{how}: status {done.returncode}: {done.stdout}{done.stderr}")
    for how, status, why in (("log without end", 1, "the responder's log does not end"),
                             ("escapes", 2, "no: ?]0;x??skip rfc5040 X01")):
        with serve(how) as s:
            write_vector("X07", "tested recv=8x64\nsetup\n! recv 2 limit=200\n")
            done = conform("--timeout", "300", "--id", "X07", "--format", "plain", f"127.0.0.1:{s.getsockname()[1]}",
                           vectors=os.path.join(WORK, "own"))
            expect(done.returncode == status and why in done.stdout and
                   all(c.isprintable() or c == "\n" for c in done.stdout),
                   f"{how}: status {done.returncode}: {done.stdout!r}{done.stderr}")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    expect_trouble(conform("--timeout", "300", f"127.0.0.1:{port}"), f":{port}", "TCP connection")
    done = conform("--timeout", "100", "--listen", "--port", str(port), "--id", "I01")
    expect(done.returncode == 1 and "does not connect" in done.stdout, f"nobody: {done.stdout}")


def check_mss():
    """What a file sets of the wire is not there for the next one."""
    own = os.path.join(WORK, "mss")
    os.makedirs(os.path.join(own, "rfc5040"))
    for ident, wire in (("M01", "wire mss=500\n"), ("M02", "")):
        with open(os.path.join(own, "rfc5040", f"{ident}.vec"), "w", encoding="utf-8") as f:
            f.write(HEAD.format(ident) + f"base\n\nplay\n{wire}connect\n> closed\n")
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as s:
        def take():
            for _ in range(2):
                with s.accept()[0] as c:
                    seen.append(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))

        taker = threading.Thread(target=take, daemon=True)
        taker.start()
        done = conform("--base", "--timeout", "3000", "--format", "plain", f"127.0.0.1:{s.getsockname()[1]}",
                       vectors=own)
        taker.join(10)
    expect(done.returncode == 0 and len(seen) == 2 and seen[0] <= 500 < seen[1],
           f"wire mss: segments of {seen}: {done.stdout}{done.stderr}")


def check_wrong_files():
    """What a writer of files may get wrong is named, and where, also in a line that is only recommended."""
    for n, (line, why) in enumerate((("> terminate 1/1", "'1/1': want LAYER/TYPE/CODE"),
                                     ("> terminate 1/1/00 hdr=x", "no segment was sent as 'x'"),
                                     ("check 1 lt 2", "'lt': want le, ge or eq"),
                                     ("< send \"x\" opp=3", "unknown key 'opp'"),
                                     ("> sned", "unknown message 'sned'"),
                                     ("should > sned", "unknown message 'sned'"),
                                     ("should > alive limti=5", "unknown key 'limti'"),
                                     ("< request rtr=x", "rtr=x: want send, write and read"))):
        write_vector(f"Y{n}", "tested recv=8x64\nsetup\n" + line + "\n")
        done = play("--format", "plain", "--id", f"Y{n}", vectors=os.path.join(WORK, "own"))
        expect(done.returncode == 1 and f"line 9: {why}" in done.stdout, f"{line}: {done.stdout}")


def check_all():
    """Every file that two processes without privilege can play, recommendations counted."""
    done = play("--strict", "--format", "plain")
    bad = [line for line in done.stdout.splitlines() if line.startswith(("FAIL", "should"))]
    expect(done.returncode == 0 and not bad, "\n".join(bad) + done.stderr)
    print(done.stdout[done.stdout.rfind("\nrfc5040"):])


def main():
    with subprocess.Popen([CONFORM, "--responder", "--device", f"shm:/{WIRE},ip={PEER}/24"],
                          stdout=subprocess.PIPE, text=True) as responder:
        line = responder.stdout.readline()
        expect("listening" in line, f"responder: {line!r}")
        check_selection()
        check_formats()
        check_status()
        check_usage()
        check_peers()
        check_wrong_files()
        check_mss()
        check_paths()
        check_cut_names()
        check_all()
        responder.send_signal(signal.SIGTERM)
        expect(responder.wait() == 0, f"responder: status {responder.returncode}")
    print(f"{FAULTS} faults")
    return FAULTS > 0


with tempfile.TemporaryDirectory() as WORK:
    STATUS = main()
sys.exit(STATUS)
