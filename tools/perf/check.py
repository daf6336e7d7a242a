#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py UIW-PERF LIAR: uiw-perf against itself over shared memory, with its content checked; its
JSON, table and picture; wrong arguments; a server whose clients lie, die or stall. No root."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.dom.minidom
import xml.parsers.expat

PERF, LIAR = sys.argv[1:3]
NET = f"/uiw-perf-{os.getpid()}"
A, B = "198.18.0.1", "198.18.0.2"
SERVER = ["server"]
os.environ.pop("UIW_DEVICE", None)
failed = 0


def report(name, fault):
    global failed
    print(f"FAIL {name}: {fault}" if fault else f"ok {name}", flush=True)
    failed += bool(fault)


def device(ip, keys=""):
    return f"shm:{NET},ip={ip}/24{keys}"


class Server:
    """One that runs while the 'with' lasts; ends by SIGINT, with status 0."""

    def __init__(self, *args, keys="", start=None):
        self.args, self.start = [PERF, "server", "-d", device(A, keys), *args], start

    def __enter__(self):
        self.interrupted = False
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.args, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=self.start)
        first = self.process.stdout.readline()
        if "listening on" not in first:
            sys.exit(f"server: {first} {self.errors()}")
        return self

    def interrupt(self):
        if not self.interrupted:
            self.process.send_signal(signal.SIGINT)  # a second one would kill
        self.interrupted = True

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def __exit__(self, *_):
        self.interrupt()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            report("server", "does not end on SIGINT")
        if self.process.returncode != 0:
            report("server", f"status {self.process.returncode}: {self.errors()}")
        self.process.stdout.close()


def run(*args, keys="", limit=120):
    return subprocess.run([PERF, *args, "-d", device(B, keys), A], capture_output=True, text=True,
                          timeout=limit)


def json_of(*args, keys=""):
    done = run(*args, "--json", keys=keys)
    if done.returncode != 0:
        raise ValueError(f"status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def ascending(line):
    lat = line["latency_us"]
    return (0 < lat["min"] <= lat["p50"] <= lat["p99"] <= lat["p99_9"] <= lat["max"]
            and lat["min"] <= lat["average"] <= lat["max"]
            and lat["min"] <= lat["typical"] <= lat["max"])


def line_fault(doc, line, count):
    links = doc["threads"] * doc["qps"]
    both = 2 if doc["bidirectional"] else 1
    c, s = line["client"], line["server"]
    if count and line["messages"] != count * links * both:
        return f"{line['messages']} messages"
    if not count and line["messages"] == 0:
        return "no messages"
    if c["errors"] or s["errors"]:
        return "wrong content"
    if doc["operation"] == "send" and (s["received"] != c["sent"] or c["received"] != s["sent"]):
        return f"sent and received differ: {c} {s}"
    if doc["operation"] == "send" and c["sent"] < c["messages"]:
        return "more messages than sent"
    if c["cpu_seconds"] <= 0 or c["seconds"] <= 0:
        return "no time"
    if doc["test"] == "latency":
        return None if ascending(line) else f"times {line['latency_us']}"
    rate = line["message_rate"] * line["size"] * 8 / 1e9
    if abs(rate - line["average_gbit_s"]) > 1e-6 * rate or line["peak_gbit_s"] < rate * 0.99999:
        return f"rates {line}"
    if abs(line["average_mib_s"] * 2**20 * 8 / 1e9 - rate) > 1e-6 * rate:
        return f"units {line}"
    want = c["cpu_seconds"] * 1e9 / (line["messages"] * line["size"])
    return None if abs(line["cpu_client_s_per_gb"] - want) <= 1e-6 * want else f"CPU {line}"


def check_json(op, test, *args, sizes, count=200, keys=""):
    name = " ".join((op, test, *args, keys))
    how = ["-n", str(count)] if count else ["-D", "1"]
    if sizes != [8]:
        how += ["-s", ",".join(map(str, sizes))]
    try:
        doc = json_of(op, test, *how, *args, keys=keys)
        fault = None
        kind = {"atomic": "cmpswap" if "CMP_AND_SWAP" in args else "fetchadd"}.get(op, op)
        if (doc["operation"], doc["test"]) != (kind, {"bw": "bandwidth", "lat": "latency"}[test]):
            fault = f"says {doc['operation']} {doc['test']}"
        if [line["size"] for line in doc["results"]] != sizes:
            fault = "sizes"
        for line in doc["results"]:
            fault = fault or line_fault(doc, line, count)
        report(name, fault)
        return doc
    except (ValueError, KeyError, subprocess.TimeoutExpired) as error:
        report(name, error)
        return None


def operations():
    sizes = [1, 64, 5000, 200000]
    with Server():
        for op in ("write", "read", "send", "atomic"):
            few = [8] if op == "atomic" else sizes
            for test in ("bw", "lat"):
                check_json(op, test, "--check", sizes=few)
                check_json(op, test, "--check", "-e", sizes=few)
                check_json(op, test, "--threads", "2", "--check", "-e", sizes=few)
                check_json(op, test, sizes=few)
            check_json(op, "bw", "-b", "--check", "-q", "2", "-e", sizes=few)
            check_json(op, "bw", "-b", "-q", "3", "--threads", "2", "-e", sizes=few, count=50)
        check_json("atomic", "bw", "-A", "CMP_AND_SWAP", "--check", sizes=[8])
        check_json("atomic", "lat", "-A", "CMP_AND_SWAP", "--check", sizes=[8])
        check_json("send", "bw", "-t", "1", "-r", "1", "--check", sizes=[64])
        check_json("send", "bw", "-t", "300", "-l", "64", "-Q", "100", sizes=[64], count=3000)
        check_json("write", "bw", "-I", "64", "-t", "2", "--check", sizes=[1, 64, 65])
        check_json("write", "lat", "-I", "100", "--check", sizes=[100, 101])
        check_json("read", "bw", "-o", "1", "--check", sizes=[100])
        check_json("write", "bw", "--warmup", "0", "--check", sizes=[64], count=1)
        for op in ("write", "send"):
            check_json(op, "bw", "--check", sizes=[777], count=0)
            check_json(op, "lat", "-e", sizes=[777], count=0)
        check_json("write", "bw", "-b", "-q", "2", "-e", sizes=[4096], count=0)
        check_json("write", "bw", "-b", "-t", "2", "--warmup", "1", sizes=[64 << 20], count=4)


def agreements():
    """CRC, Markers and who turns the loop: what the table's head says is what was asked for."""
    with Server("--crc", "off", "--progress", "polled"):
        doc = check_json("send", "bw", "--crc", "off", "--progress", "polled", "--check",
                         sizes=[5000])
        report("crc off", doc and (doc["crc"] or doc["server_progress"] != "polled" or
                                   doc["client_progress"] != "polled"))
        doc = check_json("write", "lat", "-e", "--markers", "on", "--check", sizes=[5000])
        report("markers", doc and not (doc["crc"] and doc["rx_markers"] and not doc["tx_markers"]))
        check_json("read", "bw", "-b", "--check", "-e", "--progress", "polled", sizes=[64, 5000])


def in_huge_pages(pid):
    """Octets."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) << 10 for line in f if line.startswith("AnonHugePages:"))


def without_huge_pages():
    """For a process to be, and those that it starts."""
    if ctypes.CDLL(None, use_errno=True).prctl(41, 1, 0, 0, 0) != 0:  # PR_SET_THP_DISABLE
        raise OSError(ctypes.get_errno(), "prctl")


def pages():
    """Huge pages where they were asked for, and one clear fault where there are none."""
    huge = ["write", "bw", "-s", "1m", "-q", "4", "--use_hugepages"]
    none = "no memory in huge pages: Invalid argument"
    with Server() as server:
        client = subprocess.Popen([PERF, *huge, "-D", "2", "-d", device(B), A], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        if "huge pages" not in (head := client.stdout.readline()):
            errors = client.communicate()[1]
            if none in errors:
                print("skipped: huge pages, this kernel has none")
                return
            report("huge pages", head + errors)
            return
        got = [in_huge_pages(pid) for pid in (server.process.pid, client.pid)]
        _, errors = client.communicate(timeout=60)
        report("huge pages", None if min(got) >= 8 << 20 and client.returncode == 0 else f"{got} {errors}")
        doc = check_json("write", "bw", "--check", "-q", "2", "--use_hugepages", sizes=[64, 3 << 20])
        report("huge pages in JSON", doc and doc["hugepages"] is not True)
        doc = check_json("send", "lat", sizes=[64])
        report("small pages", (doc and doc["hugepages"]) or in_huge_pages(server.process.pid))
        done = subprocess.run([PERF, *huge, "-d", device(B), A], capture_output=True, text=True, timeout=60,
                              preexec_fn=without_huge_pages, check=False)
        report("no huge pages", None if done.returncode == 1 and done.stderr.count("\n") == 1 and
               none in done.stderr else done)
    with Server(start=without_huge_pages):
        done = run(*huge)
        report("no huge pages at the server", None if done.returncode == 1 and done.stderr.count("\n") == 1 and
               f"refused: {none}" in done.stderr else done)


def table():
    with Server():
        done = run("write", "bw", "-a", "-n", "3", "--warmup", "0", "--report_gbits")
        rows = [line.split() for line in done.stdout.splitlines()[3:]]
        right = ([int(r[0]) for r in rows] == [2**i for i in range(24)] and
                 all(len(r) == 7 and r[1] == "3" for r in rows) and "Gb/s" in done.stdout)
        report("table of all sizes", None if right else done.stdout + done.stderr)
        done = run("send", "lat", "-n", "50")
        last = done.stdout.splitlines()[-1].split()
        report("table of times", None if len(last) == 10 and last[:2] == ["64", "50"] else last)
        with tempfile.TemporaryDirectory() as folder:
            pictures(folder)


def is_svg(file):
    try:
        return xml.dom.minidom.parse(file).documentElement.tagName == "svg"
    except (OSError, xml.parsers.expat.ExpatError):
        return False


def pictures(folder):
    file, doc = os.path.join(folder, "it's.svg"), os.path.join(folder, "a.json")
    if shutil.which("gnuplot"):
        for args in (["write", "bw", "-n", "20", "-s", "64,128"], ["write", "bw", "-D", "1"],
                     ["send", "lat", "-n", "20"], ["send", "lat", "-n", "20", "-s", "64,128"],
                     ["read", "bw", "-n", "1", "--warmup", "0"]):
            done = run(*args, "--plot", file, f"--json={doc}")
            with open(doc, encoding="utf-8") as f:
                right = json.load(f)["tool"] == "uiw-perf" and is_svg(file)
            report("plot " + " ".join(args), None if right and done.returncode == 0 and
                   "#bytes" in done.stdout and not done.stderr else done)
            os.unlink(file)
    else:
        print("skipped: pictures, gnuplot is not installed")
    done = run("write", "bw", "-n", "20", f"--json={folder}/none/a.json")
    report("json file", None if done.returncode == 1 and "none/a.json: No such" in done.stderr
           else done.stderr)
    full_disk()


def full_disk():
    """Whatever could not be written is told, once, and is no success."""
    for to, args in (("standard output", []), ("standard output", ["--json"]),
                     ("/dev/full", ["--json=/dev/full"]), ("/dev/full", ["--plot", "/dev/full"])):
        if args[:1] == ["--plot"] and not shutil.which("gnuplot"):
            continue
        with open("/dev/full" if to[0] == "s" else os.devnull, "wb") as out:
            done = subprocess.run([PERF, "write", "bw", "-n", "20", *args, "-d", device(B), A],
                                  stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
        right = done.returncode == 1 and done.stderr == f"uiw-perf: {to}: cannot write\n"
        report(f"full disk {args}", None if right else done)


def says(status, text, *args, env=None):
    done = subprocess.run([PERF, *args], capture_output=True, text=True, timeout=60, env=env)
    lines = done.stderr.splitlines() if status else done.stdout.splitlines()
    # One line of fault; of wrong arguments another that says how to get help.
    right = (done.returncode == status and any(text in line for line in lines) and
             (status == 0 or len(lines) <= status + 1))
    report(" ".join(args), None if right else f"{done.returncode} {done.stdout}{done.stderr}")


def arguments():
    d = ["-d", device(B)]
    says(2, "what to do")
    says(2, "what to do", "-n", "5")
    says(2, "walk: not server", "walk", "bw", A)
    says(2, "bw or lat", "write")
    says(2, "bw or lat", "write", A)
    says(2, "address of the server is missing", "write", "bw")
    says(2, "more: what is this", "write", "bw", A, "more")
    says(2, "more: what is this", "server", "more")
    says(2, "no device", "server")
    says(2, "no device", "write", "bw", A)
    says(2, "nowhere: not an IP", "write", "bw", "nowhere", *d)
    says(2, "nowhere: not an IP", "server", "--bind", "nowhere", *d)
    says(2, "-s 0: not a size", "write", "bw", "-s", "0", A)
    says(2, "not a size", "write", "bw", "-s", "64,,64", A)
    says(2, "not a size", "write", "bw", "-s", "2g", A)
    says(2, "more than 64 sizes", "write", "bw", "-s", ",".join(["1"] * 65), A)
    says(2, "either -s or -a", "write", "bw", "-a", "-s", "1", A)
    says(2, "either -n or -D", "write", "bw", "-n", "1", "-D", "1", A)
    says(2, "-t 0: not a number from 1 to 8192", "write", "bw", "-t", "0", A)
    says(2, "not a number of messages", "write", "bw", "-n", "0", A)
    says(2, "together must not exceed", "write", "bw", "-t", "8", "-Q", "8", A)
    says(2, "at most 1024 QPs", "write", "bw", "-q", "1000", "--threads", "2", A)
    says(2, "one QP for each thread", "write", "lat", "-q", "2", A)
    says(2, "bidirectional is for bandwidth", "send", "lat", "-b", A)
    says(2, "8 octets", "atomic", "bw", "-s", "16", A)
    says(2, "-A is for atomic", "write", "bw", "-A", "CMP_AND_SWAP", A)
    says(2, "-o is for read and atomic", "write", "bw", "-o", "5", A)
    says(2, "-o is for read and atomic", "send", "lat", "-o", "5", A)
    says(2, "-I is for write and send", "read", "bw", "-I", "64", A)
    says(2, "-I is for write and send", "atomic", "lat", "-I", "64", A)
    says(2, "--bind is for the server", "write", "bw", "--bind", A, A)
    says(2, "--max-memory is for the server", "write", "bw", "--max-memory", "1g", A)
    for option in (["-s", "64"], ["--threads", "2"], ["-b"], ["--json"], ["--plot", "x.svg"]):
        says(2, "is for the client", "server", *option)
    says(1, "none/a.json: No such", "write", "bw", "--json=none/a.json", *d, A)
    says(1, "set-up limit", "write", "bw", "--timeout", "1", "-d", device(B, ",gw=198.18.0.7"), "198.19.0.1")
    says(2, "either FETCH_AND_ADD", "atomic", "bw", "-A", "ADD", A)
    says(2, "--crc maybe: either on or off", "write", "bw", "--crc", "maybe", A)
    says(2, "not a port", "server", "-p", "0")
    says(2, "Try", "write", "bw", "--no-such-option", A)
    says(1, "crc is given twice", "server", "--crc", "on", "-d", device(A, ",crc=on"))
    says(1, "device string", "server", "-d", "nonsense")
    says(0, "Usage", "--help")
    says(0, "uiw-perf 0", "--version")
    says(1, "needs gnuplot", "write", "bw", "--plot", "x.svg", *d, A,
         env={**os.environ, "PATH": "/nowhere"})
    if shutil.which("gnuplot"):
        says(1, "No such file", "write", "bw", "--plot", "/nowhere/x.svg", *d, A)


# What a client does -> what it is told, and what the server says.
LIES = {
    "greeting": ("rejected: this server speaks another version", None),
    "short": ("rejected: this server speaks another version", None),
    "stray": ("rejected: this data connection belongs to no job", None),
    # Before the first octets of the client a server may not send any (RFC 5044 sec 7.1.2).
    "silent": ("closed", "no message of the client within 2 s"),
    "junk": ("failed: the other end does not speak", "does not speak this version"),
    "long": ("ended: ", "control connection: "),
    "turn": ("failed: the other end spoke out of turn", "spoke out of turn"),
    "op": ("failed: refused: unknown operation", "unknown operation"),
    "flags": ("failed: refused: a number that is far", "far out of bounds"),
    "threads": ("failed: refused: threads must be", "threads must be"),
    "qps": ("failed: refused: at most 1024 QPs", "at most 1024 QPs"),
    "depth": ("failed: refused: a number that is far", "far out of bounds"),
    "memory": ("failed: refused: needs 2048 MiB of memory, the server grants 64", "needs 2048"),
    "max-size": ("failed: refused: size must be", "size must be"),
    "no-data": ("failed: no data connections within", "no data connections within 2 s"),
    "session": ("rejected: this data connection belongs to no job", "client 198.18.0.2:"),
    "again": ("rejected: this data connection belongs to no job", "client 198.18.0.2:"),
    "size": ("failed: refused: size of a run", "size of a run"),
    "endless": ("failed: refused: count above", "count above"),
    "no-end": ("failed: refused: either a count", "either a count"),
    "rkey": ("", "STag"),
    "stall": ("", "nothing has moved for 2 s"),
    "die": ("", "client 198.18.0.2:"),
}


def liars():
    with Server("--timeout", "2", "--max-memory", "64m") as server:
        env = {**os.environ, "UIW_DEVICE": device(B)}
        for case, (told, log) in LIES.items():
            before = len(server.errors())
            while True:
                done = subprocess.run([LIAR, A, "7177", case], capture_output=True, text=True,
                                      timeout=90, env=env)
                if "server is busy" not in done.stdout:
                    break
            # The next one is served, and by then the log has what became of the last.
            after = run("send", "bw", "-n", "100", "-s", "64", "--check", "--timeout", "30")
            said = server.errors()[before:]
            right = (done.stdout.startswith(told) and after.returncode == 0 and
                     (log is None or log in said))
            report(f"liar, {case}", None if right else (done.stdout, done.stderr, said,
                                                        after.stderr))
            if server.process.poll() is not None:
                return


def interruptions():
    with Server() as server:
        client = subprocess.Popen([PERF, "write", "bw", "-D", "60", "-e", "-d", device(B), A],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        client.stdout.readline()
        server.interrupt()
        _, errors = client.communicate(timeout=60)
        report("server interrupted", None if client.returncode == 1 and
               errors == f"uiw-perf: {A}:7177: the server says: interrupted\n" else errors)
    with Server("--timeout", "5") as server:
        for how in (signal.SIGINT, signal.SIGKILL):
            client = subprocess.Popen([PERF, "send", "bw", "-D", "60", "-e", "-d", device(B), A],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            client.stdout.readline()
            try:
                client.wait(1)
            except subprocess.TimeoutExpired:
                client.send_signal(how)
            _, errors = client.communicate(timeout=60)
            if how == signal.SIGINT:
                run("write", "lat", "-n", "10", "--timeout", "30")
                said = server.errors()
                report("server told", None if "the client says: interrupted" in said else said)
                report("client interrupted", None if client.returncode == 1 and
                       errors == f"uiw-perf: {A}:7177: interrupted\n" else errors)
        done = run("write", "lat", "-n", "10", "--timeout", "30")
        report("client after killed ones", done.stderr)
        client = subprocess.Popen([PERF, "write", "bw", "-D", "60", "-e", "-d", device(B), A],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        client.stdout.readline()
        server.process.kill()
        _, errors = client.communicate(timeout=60)
        report("server killed", None if client.returncode == 1 and errors.count("\n") == 1 and
               f"uiw-perf: {A}:7177: " in errors else errors)
        server.process.wait()
        server.process.returncode = 0
    done = run("write", "bw", "--timeout", "2", limit=60)
    report("no server", None if done.returncode == 1 and done.stderr.count("\n") == 1 else done)
    interface_removed()


def interface_removed():
    """Needs root: a network of its own."""
    add = ["unshare", "-n", "ip", "tuntap", "add", "t0", "mode", "tap"]
    if not shutil.which("unshare") or not shutil.which("ip") or subprocess.run(
            add, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("skipped: an interface that is removed, no root")
        return
    script = """ip tuntap add t0 mode tap && ip link set t0 up
        { read -r line; ip link del t0; cat; } < <("$@") ; wait $!"""
    done = subprocess.run(["unshare", "-n", "bash", "-c", script, "-", PERF, "server", "-d",
                           f"tap:t0,ip={A}/24"], capture_output=True, text=True, timeout=60)
    report("interface removed", None if done.returncode == 1 and
           "uiw-perf: here: the device has failed" in done.stderr else done)


PARTS = {"operations": operations, "agreements": agreements, "pages": pages, "table": table,
         "arguments": arguments, "liars": liars, "interruptions": interruptions}
for part in sys.argv[3:] or PARTS:
    PARTS[part]()
print(f"uiw-perf: {failed} fault(s)")
sys.exit(failed > 0)
