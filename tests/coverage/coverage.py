#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which requirement is proved by which test. Tests name the rows they prove:

  in C      /* proves: ID ID ... */ directly above a test function
  in .vec   a line with the ids, as docs/vectors.md says
  in shell  # proves: ID ...

Rows that no test can show are listed in facts.tsv with the fact of the design that makes them true
("design"), or the reason why they are out of scope ("scope").

  coverage.py              checks: every row has one of the three, no test names a row that is not there
  coverage.py --write F    writes the table to F as well
  coverage.py --compare F  also wants F to be that table
"""

import collections
import csv
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
ID = re.compile(r"\b(?:MPA|DDP|RDMAP|SEC|ECM|REG|IPSEC|EXT|SECU|[A-Z]+)-\d{4}-[0-9A-Za-z.]+-\d+\b")
PROVES = re.compile(r"proves:((?:[^*]|\*(?!/))*)")
FUNCTION = re.compile(r"^\s*(?:static\s+)?void\s+(\w+)\s*\(", re.M)


def rows():
    with open(os.path.join(HERE, "requirements.tsv"), encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def facts():
    out = {}
    with open(os.path.join(HERE, "facts.tsv"), encoding="utf-8") as f:
        for line in csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            if line and not line[0].startswith("#"):
                out[line[0]] = (line[1], line[2])
    return out


def in_c(text):
    """(test function, id) of a C source."""
    for m in PROVES.finditer(text):
        f = FUNCTION.search(text, m.end())
        for i in ID.findall(m.group(1)):
            yield (f.group(1) if f else "?"), i


def in_lines(text, mark):
    for line in text.splitlines():
        if mark(line):
            for i in ID.findall(line):
                yield "", i


def named():
    """id -> the tests that prove it; a test is 'file' or 'file: function'."""
    out = collections.defaultdict(set)
    for folder, dirs, files in os.walk(TESTS):
        dirs[:] = [d for d in dirs if d != "coverage"]
        for name in files:
            path = os.path.join(folder, name)
            kind = os.path.splitext(name)[1]
            if kind not in (".c", ".h", ".vec", ".sh"):
                continue
            text = open(path, encoding="utf-8", errors="replace").read()
            found = (in_c(text) if kind in (".c", ".h")
                     else in_lines(text, lambda l: True) if kind == ".vec"
                     else in_lines(text, lambda l: "proves:" in l))
            short = os.path.relpath(path, TESTS)
            for test, i in found:
                out[i].add(f"{short}: {test}" if test else short)
    return out


def state(row, tests, known):
    if row["id"] in tests:
        return "proved"
    return {"design": "by design", "scope": "out of scope"}.get(known.get(row["id"], ("", ""))[0])


def check(all_rows, tests, known):
    ids = {r["id"] for r in all_rows}
    faults = [f"{r['id']}: no test, no fact: {r['requirement']}" for r in all_rows
              if state(r, tests, known) is None]
    faults += [f"{i}: named by {', '.join(sorted(t))}, but no such row" for i, t in tests.items()
               if i not in ids]
    faults += [f"{i}: in facts.tsv, but no such row" for i in known if i not in ids]
    faults += [f"{i}: in facts.tsv, but {', '.join(sorted(tests[i]))} proves it" for i in known
               if i in tests]
    return sorted(faults)


def summary(all_rows, tests, known):
    cells = collections.Counter()
    keys = []
    for r in all_rows:
        key = (r["rfc"], r["level"])
        if key not in keys:
            keys.append(key)
        cells[key, state(r, tests, known)] += 1
    yield "| RFC | level | rows | proved | by design | out of scope |"
    yield "|---|---|---|---|---|---|"
    for key in keys:
        n = [cells[key, s] for s in ("proved", "by design", "out of scope")]
        yield f"| {key[0]} | {key[1]} | {sum(n)} | {n[0]} | {n[1]} | {n[2]} |"
    n = [sum(cells[k, s] for k in keys) for s in ("proved", "by design", "out of scope")]
    yield f"| all | | {sum(n)} | {n[0]} | {n[1]} | {n[2]} |"


def table(all_rows, tests, known):
    yield "# Conformance"
    yield ""
    yield "Made by `meson compile -C build coverage-table` from the tests; not to be edited."
    yield "A row is one normative statement of an RFC (`tests/coverage/requirements.tsv`)."
    yield ""
    yield from summary(all_rows, tests, known)
    rfc = None
    for r in all_rows:
        if r["rfc"] != rfc:
            rfc = r["rfc"]
            yield ""
            yield f"## RFC {rfc}"
            yield ""
            yield "| row | level | requirement | shown by |"
            yield "|---|---|---|---|"
        how = (", ".join(sorted(tests[r["id"]])) if r["id"] in tests
               else "{}: {}".format(state(r, tests, known), known.get(r["id"], ("", "nothing"))[1]))
        yield f"| {r['id']} | {r['level']} | {r['requirement'].replace('|', '/')} | {how} |"


def is_stale(path, text):
    if not os.path.exists(path):
        return True
    with open(path, encoding="utf-8") as f:
        return f.read() != text


def main():
    all_rows, tests, known = rows(), named(), facts()
    faults = check(all_rows, tests, known)
    text = "\n".join(table(all_rows, tests, known)) + "\n"
    if sys.argv[1:2] == ["--write"]:
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            f.write(text)
    elif sys.argv[1:2] == ["--compare"] and is_stale(sys.argv[2], text):
        faults.append(f"{os.path.relpath(sys.argv[2])} is out of date: "
                      "meson compile -C build coverage-table")
    print("\n".join(faults))
    print("\n".join(summary(all_rows, tests, known)))
    print(f"coverage: {len(faults)} fault(s)" if faults else "coverage: ok")
    return 1 if faults else 0


sys.exit(main())
