#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_wrong.py RUN_VECTORS RUN_MPA RUN_PLAY: what a writer of files may get wrong is named, with its line,
and is not played as something else. The same lines go to the whole stack and to MPA alone."""

import os
import subprocess
import sys
import tempfile

RUN_VECTORS, RUN_MPA, RUN_PLAY = sys.argv[1:4]
HEAD = "# SPDX-License-Identifier: MIT\n{} {} name\ntext words\nproves RDMAP-5040-7.2-02\n"
FAULTS = 0


def expect(ok, what):
    global FAULTS
    if not ok:
        print(f"FAIL {what}")
        FAULTS += 1


def up_to(n):
    return f"want a number from 0 to {n}"


B1, B2, B4, B8, B14, B16, B32 = (up_to(2**n - 1) for n in (1, 2, 4, 8, 14, 16, 32))

# What stands instead of `setup`, or behind it, and what must be said of it.
FRAMES = (
    ("setup rev=257", "rev=257: " + B8), ("setup m=2", "m=2: " + B1), ("setup c=2", "c=2: " + B1),
    ("setup r=3", "r=3: " + B1), ("setup s=-1", "s=-1: " + B1), ("setup rev=2 a=2", "a=2: " + B1),
    ("setup rev=2 ird=0x4000", "ird=0x4000: " + B14), ("setup rev=2 ord=65540", "ord=65540: " + B14),
    ("setup flags=256", "flags=256: " + B8), ("setup pd=zero:4294967300", "bad private data"),
    ("setup rev=2 rtr=send+", "rtr=send+: want send, write and read"),
    ("setup pd=pattern:513", "bad private data"),
    ("connect\n< request\n> reply rev=257", "rev=257: " + B8),
    ("connect\n< request rev=2\n> reply ird=16384", "ird=16384: " + B14),
)

LINES = (
    ('< send dv=4 "x"', "dv=4: " + B2), ('< send dv=9 "x"', "dv=9: " + B2),
    ('< send rv=4 "x"', "rv=4: " + B2), ('< send op=16 "x"', "op=16: " + B4),
    ('< send op=19 "x"', "op=19: " + B4), ('< send t=2 "x"', "t=2: " + B1),
    ('< send last=2 "x"', "last=2: " + B1), ('< send se=2 "x"', "se=2: " + B1),
    ('< send rsvd=2 "x"', "rsvd=2: " + B1), ("< send qn=4294967297", "qn=4294967297: " + B32),
    ("< send msn=4294967297", "msn=4294967297: " + B32), ("< send mo=0x100000000", "mo=0x100000000: " + B32),
    ("< send msn=-1", "msn=-1: " + B32), ("< send inv=0x1000a5010", "inv=0x1000a5010: " + B32),
    ("< write stag=0x100000000", "stag=0x100000000: " + B32),
    ("< write stag=rw to=0x10000000000000000", "to=0x10000000000000000 is no number of 64 bits"),
    ("< readreq len=4294967296", "len=4294967296: " + B32),
    ("< readreq sinkstag=4294967296", "sinkstag=4294967296: " + B32),
    ("< readreq plen=29", "plen=29: " + up_to(28)), ("< readreq plen=99999999", "plen=99999999: " + up_to(28)),
    ("< readresp len=4294967297", "len=4294967297: " + up_to(1 << 21)),
    ("< fetchadd aop=16 stag=at", "aop=16: " + B4), ("< cmpswap id=4294967297", "id=4294967297: " + B32),
    ("< fetchadd plen=53", "plen=53: " + up_to(52)), ("< atomicresp id=4294967297", "id=4294967297: " + B32),
    ('< send crc=4294967296 "x"', "crc=4294967296: " + B32), ('< send length=65537 "x"', "length=65537: " + B16),
    ('< send ulen=65537 "x"', "ulen=65537: " + B16), ('< send pad=256 "x"', "pad=256: " + B8),
    ('< send seg=4294967297 "x"', "seg=4294967297: " + up_to(64736)), ('< send seg=0 "x"', "seg=0: "),
    ('< send ptr=5 "x"', "no Marker is in the FPDU"), ('< send markerbits=5 "x"', "no Marker is in the FPDU"),
    ('< send pad=1 "xxxx"', "pad=1, and the FPDU has none"),
    ("< send zero:4294967301", "bad octets 'zero:4294967301'"),
    ("< send pattern:4294967301", "bad octets 'pattern:4294967301'"),
    ("< send pattern:5@18446744073709551617", "bad octets"), ("< send zero:-4294967291", "bad octets"),
    ("< send " + '"' + "x" * 2200000 + '"', "bad octets"), ("< write stag=rw to=rw.length", "no region of that name"),
    ("< terminate 4294967297/1/00", "'4294967297/1/00': want LAYER/TYPE/CODE"),
    ("< terminate 1/1/100000000", "'1/1/100000000': want LAYER/TYPE/CODE"),
    ("> terminate 4294967297/1/00", "'4294967297/1/00': want LAYER/TYPE/CODE"),
    ("> terminate 1/1/00 skip=2", "skip=2: " + B1), ("> alive\n> quiet 600001", "'600001': want milliseconds"),
    ('< send "x"\n< send "x"\nlimit 4294967297', "'4294967297': want milliseconds"),
    ("~ -1", "'-1': want milliseconds"), ("nobody 99999999999", "'99999999999': want milliseconds"),
    ("> alive\n> send limit=4294967297", "limit=4294967297: " + up_to(600000)),
    ("let a_name_that_is_too_long 1", "want a name of at most 15"), ("let x-y 1", "'x-y': want a name"),
    ("for a_name_that_is_too_long 1..2\n> alive\nend", "want a name of at most 15"),
    ("for i 1..2 step=0\n> alive\nend", "step=0: want a number from 1"),
    ("for i 1..2 step=-1\n> alive\nend", "step=-1: want a number"),
    ("for i 1..18446744073709551617\n> alive\nend", "is no number"), ("stream 1x", "want: stream 1..8"),
    ("stream 4294967297", "want: stream 1..8"), ("wire", "want: wire KNOB=N"), ("wire cutt=5", "unknown key"),
    ("wire seg=5", "want: wire KNOB=N"), ("wire cut=4294967297", "cut=4294967297: " + up_to(65535)),
    ("wire dup=1000001", "dup=1000001: " + up_to(1000000)), ("wire isn=4294967296", "isn=4294967296: " + B32),
    ("~ 5 6", "'6' is one word too many"), ("stream 1 2", "'2' is one word too many"),
    ("check 1 le 2 3", "'3' is one word"), ("let x 1 2", "'2' is one word"), ("< fin now", "'now' is one word"),
    ("<+ readreq 00", "'00' is one word"), ("< terminate 0/0/00 0/0/00", "'0/0/00' is one word"),
    ("> alive still", "'still' is one word"), ("> fin now", "'now' is one word"), ("> quiet 5 6", "'6' is one word"),
    ('< send qn=0 "x" qn=1', "'qn=' stands there twice"), ("> alive mask=1", "'mask=' says nothing in such a line"),
    ('< send "x" value=1', "'value=' says nothing"), ("setup qn=5", "'qn=' says nothing"),
    ("wire mss=87", "mss=87: want a number from 88"), ("do", "want: do ACTIONS"), ("!", "'': want an event"),
    ("! none", "'': want ! none EVENT"), ("! none recvd", "'recvd': want ! none EVENT"),
    ("! recvd 1", "'recvd': want an event, none"), ("! answer", 'want: ! answer "QUESTION" "ANSWER"'),
    ('! answer "hello"', 'want: ! answer "QUESTION"'), ("! answer hello a=b", 'want: ! answer "QUESTION"'),
    ("! memory rw", "want: ! memory REGION+OFFSET OCTETS"), ("! refused", "want: ! refused ACTIONS"),
    ("do send:n=1" + ",send:n=1" * 60, "the question is too long: it has 553 octets, want at most 500"),
    ("wire mss=32768", "mss=32768: " + up_to(32767)), ("check 18446744073709551616 ge 1", "want: check A le B"),
)

# Of the whole stack only: MPA alone does not look at what is above it.
DEEP = (
    ("! refused send:n=1" + ",send:n=1" * 60, "the question is too long: it has 553 octets"),
    (f'! answer "hello {"x" * 500}" "ok"', "the question is too long: it has 506 octets"),
    (f'! answer "hello {"x" * 494}" "ok"', "is answered by 'no: 'xxx"),
    ('! answer "hello" "no"', "'hello' is answered by 'ok uiw"),
    ('< send "x"\n! recv 1\nshould > send limit=600001', "limit=600001: " + up_to(600000)),
    ("should < send qn=4294967297", "qn=4294967297: " + B32),
)

# Questions that the tested end must not take, as part of `tested` and of `do`.
CASES = tuple((case, f"'{case}' is not understood") for case in (
    "cq=-1", "cq=0", "cq=99999999999", "cq=5x", "ird=99999", "ird=-1", "ird=x", "ord=16384", "recv=8",
    "recv=1025x64", "recv=8x0", "recv=8x65537", "recv=4294967297x64", "recv=8x64x", "rtr=", "rtr=sendx",
    "rtr=send+foo", "rtr=send+", "pd=123", "pd=pattern:513", "to=1.2.3.4", "foo", "foo=1",
)) + (
    ("device=foo=1", "foo"), ("device=rev=257", "rev"), ("device=ird=99999", "ird"), ("device=crc=maybe", "crc"),
    ("device=capture=/nowhere/x", "cannot be opened so"), ("do=sned", "unknown action 'sned'"), ("do=send:nn=1", "send: 'nn=1' is not understood"),
    ("do=,", "no action is named"),
)

ACTIONS = (
    ("send:n=99999999999", "send: 'n=99999999999': want a number from 0 to 4294967295"),
    ("send:n=-1", "send: 'n=-1': want a number"), ("send:n=1x", "send: 'n=1x': want a number"),
    ("send:n=", "send: 'n=': want a number"), ("send:nn=1", "send: 'nn=1' is not understood"),
    ("send:n", "send: 'n' is not understood"), ("send:se=1", "send: 'se=1' is not understood"),
    ("send:fnce", "send: 'fnce' is not understood"), ("send:stag=1", "send: 'stag=1' is not understood"),
    ("send:times=4294967296", "send: 'times=4294967296': want"), ("write:inv=5", "write: 'inv=5' is not understood"),
    ("write:stag=0x100000000", "write: 'stag=0x100000000': want"),
    ("read:to=18446744073709551616", "read: 'to=18446744073709551616': want"),
    ("imm:n=8", "imm: 'n=8' is not understood"), ("writeimm:immm=8", "writeimm: 'immm=8' is not"),
    ("fetchadd:cmp=5", "fetchadd: 'cmp=5' is not"), ("cmpswap:add=5", "cmpswap: 'add=5' is not"),
    ("recv:n=4294967297", "recv: 'n=4294967297': want"), ("recv:n=65", "recv:n=65: there is room for 64 more"),
    ("disc:now", "disc: 'now' is not understood"), ("destroy:qp", "destroy: 'qp' is not understood"),
    ("dereg", "no such region"), ("dereg:nothing", "no such region"), ("dereg:rw:ro", "dereg: 'ro' is too much"),
    ("hook:emss=4294967297", "hook:emss=4294967297: want a number"),
    ("send:se:se:se:se:se:se:se:se:se:se:se:se:se", "send: 'se' is too much"), ("disc,sned", "unknown action 'sned'"),
)

QUESTIONS = tuple((q, f"'{q}' is answered by 'no: ") for q in (
    "log x", "log", "log 4294967296", "regions -1", "regions", "hello you", "guards now", "entropy 20001", "entropy",
    "peek rw 0", "peek rw 0 8 8", "peek rw -1 8", "peek a_name_that_is_too_long 0 8", "peek rw 18446744073709551616 1",
    "sum rw 0 4294967297", "u64 at", "u64 at x", "do 1", "do x send", "do 1x send", "what",
))

HEADS = (
    ("level shuold", "level 'shuold': want level should"), ("cut maybe", "cut 'maybe': want cut no"),
    ("base yes", "base 'yes'"),
)

# cfg line and `!` line of a byte vector.
STREAM, STARTUP = "cfg stream", "cfg startup us=responder"
VECTORS = (
    (STREAM + " markers=2", "! more", 5, "markers=2: " + B1), (STREAM + " crc=2", "! more", 5, "crc=2: " + B1),
    (STREAM + " pos=4294967296", "! more", 5, "pos=4294967296: " + B32),
    (STREAM, "! tagged dv=5", 7, "dv=5: " + B2), (STREAM, "! tagged ctl=256", 7, "ctl=256: " + B8),
    (STREAM, "! tagged last=2", 7, "last=2: " + B1), (STREAM, "! untagged qn=4294967297", 7, "qn=4294967297: " + B32),
    (STREAM, "! untagged msn=4294967296", 7, "msn=4294967296: " + B32),
    (STREAM, "! untagged mo=4294967296", 7, "mo=4294967296: " + B32),
    (STREAM, "! untagged inv=4294967296", 7, "inv=4294967296: " + B32),
    (STREAM, "! tagged stag=0x100000001", 7, "stag=0x100000001: " + B32),
    (STREAM, "! tagged to=18446744073709551616", 7, "to=18446744073709551616: " + up_to(2**64 - 1)),
    (STREAM, "! tagged ddp=1/4294967297/00", 7, "'1/4294967297/00' is no verdict"),
    (STARTUP + " rev=257", "! more", 5, "rev=257: " + B8), (STARTUP + " ird=16384", "! more", 5, "ird=16384: " + B14),
    (STARTUP, "! frame request rev=257", 7, "rev=257: " + B8), (STARTUP, "! frame request m=2", 7, "m=2: " + B1),
    (STARTUP, "! frame request ord=65540", 7, "ord=65540: " + B14),
    (STARTUP, "! bad key after=4294967296", 7, "after=4294967296: " + B32),
)


def run(program, ident, text):
    """What the program says of a folder with that file alone, but for what does not belong to it."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, f"{ident}.vec"), "w", encoding="utf-8") as f:
            f.write(text)
        args = [program, folder] if program == RUN_VECTORS else [program, "--id", ident, folder]
        try:
            done = subprocess.run(args, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return -1, "does not end"
        return done.returncode, done.stdout + done.stderr


def check(program, text, where, why):
    status, said = run(program, "W01", text)
    lines = [line for line in said.splitlines() if "W01.vec:" in line]
    name = os.path.basename(program)
    expect(status == 1 and len(lines) == 1 and f"W01.vec:{where}: " in lines[0] and why in lines[0],
           f"{name}: {text[len(HEAD):][:200]!r}: status {status}, want line {where}, {why!r}:\n{said[-600:]}")


def played(lines, head=""):
    return HEAD.format("scenario", "W01") + head + "\nplay\n" + lines + "\n"


def main():
    for program in (RUN_MPA, RUN_PLAY):
        for lines, why in FRAMES:
            check(program, played("tested recv=8x64\n" + lines), 7 + len(lines.splitlines()), why)
        for lines, why in LINES + (DEEP if program == RUN_PLAY else ()):
            at = 9 if lines.startswith("for ") else 8 + len(lines.splitlines())
            check(program, played("tested recv=8x64\nsetup\n" + lines), at, why)
    for program in (RUN_MPA, RUN_PLAY):
        long = "tested pd=" + "00" * 400
        check(program, played(f"{long}\nsetup"), 7, "the question is too long: it has 808 octets, want at most 500")
        check(program, played("tested initiator do=" + "x" * 480 + "\naccept"), 8, "the question is too long: it has")
    for case, why in CASES:
        # What concerns nothing but the layers above, MPA alone lets be.
        above = case.startswith(("cq=", "recv=", "do=", "to=", "device=foo", "device=capture"))
        for program in (RUN_PLAY,) if above else (RUN_MPA, RUN_PLAY):
            said = run(program, "W01", played(f"tested {case}\nsetup\n> alive"))[1]
            what = why if program == RUN_PLAY else "is not understood"
            expect("W01.vec:8: " in said and "cannot do it: no: " in said and what in said,
                   f"{program}: {case}, want {what}: {said}")
    for action, why in ACTIONS:
        check(RUN_PLAY, played(f"tested recv=8x64\nsetup\ndo {action}"), 9, why)
    for question, why in QUESTIONS:
        check(RUN_PLAY, played(f'tested recv=8x64\nsetup\n! answer "{question}" "ok"'), 9, why)
    for head, why in HEADS:
        status, said = run(RUN_PLAY, "W01", played("tested recv=8x64\nsetup\n> alive", head))
        expect(status == 1 and f"W01.vec:5: {why}" in said, f"{head}: status {status}: {said}")
    for cfg, seen, line, why in VECTORS:
        check(RUN_VECTORS, HEAD.format("vector", "W01") + f"{cfg}\n< 00\n{seen}\n", line, why)
    print(f"{FAULTS} faults")
    return FAULTS > 0


sys.exit(main())
