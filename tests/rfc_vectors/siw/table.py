#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""table.py FOLDER NOTES VERSION >docs/siw-conformance.md: the report of a run of "run.sh --each FOLDER".

NOTES has the explanations. Its head, up to the first line that begins with "= ", goes into the report as
it is. Then, for each cause, a line "= KEY: TITLE", a line of ids, and text. What failed and has no cause
in NOTES, or has one and did not fail, is an error: then the notes, or the run, are out of date. "ID?" fails
in some runs only."""

import collections
import os
import re
import sys

ROW = re.compile(r"^(pass|FAIL|should|skip) rfc(\d+) (\w+) ([\w-]+)(?:: (?:line (\d+): )?(.*))?$", re.M)
RFCS = ("5040", "5041", "5044", "6581", "7306")
WORD = {"pass": "passed", "FAIL": "failed", "should": "recommendation missed", "skip": "not driven"}


class Result:
    def __init__(self, folder, ident):
        self.ident = ident
        with open(os.path.join(folder, ident + ".log"), encoding="utf-8", errors="replace") as f:
            found = ROW.search(f.read())
        if found is None:
            sys.exit(f"{ident}.log: no result in it")
        self.kind, self.rfc, _, self.name, _, self.why = found.groups()
        self.panic = os.path.exists(os.path.join(folder, ident + ".panic"))
        self.host = None
        path = os.path.join(folder, ident + ".host.log")
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                again = ROW.search(f.read())
            self.host = (again.group(1), again.group(6)) if again else None

    def only_order(self):
        return (self.kind == "FAIL" and "Terminate" in self.why and self.host is not None
                and self.host[0] == "pass")

    def seen(self):
        """What is wrong besides the order of the bits, as the player said it."""
        if self.kind == "pass":
            return ""
        why = self.host[1] if self.host and self.host[0] in ("FAIL", "should") else self.why
        why = re.sub(r"(?:; the last ones were|: request ird|: established ird).*", "", why)
        why = re.sub(r"\s+", " ", why).replace("|", "/").strip()
        return why + ("; then the kernel panics" if self.panic else "")


def read_notes(path):
    with open(path, encoding="utf-8") as f:
        parts = re.split(r"^= ", f.read(), flags=re.M)
    causes = collections.OrderedDict()
    for part in parts[1:]:
        head, ids, text = part.split("\n", 2)
        key, title = head.split(": ", 1)
        causes[key] = (title, ids.split(), text.strip())
    return parts[0].strip(), causes


def check(results, causes):
    """Each failure has its cause, and the other way round."""
    explained = [i for _, ids, _ in causes.values() for i in ids]
    sometimes = {i[:-1] for i in explained if i.endswith("?")}
    explained = {i for i in explained if not i.endswith("?")}
    bad = {r.ident for r in results if r.kind in ("FAIL", "should") and not r.only_order()}
    bad |= {r.ident for r in results if r.kind == "should"}
    missing, stale = sorted(bad - explained - sometimes), sorted(explained - bad)
    if missing or stale:
        sys.exit(f"without explanation: {' '.join(missing)}; explained, but passed: {' '.join(stale)}")


def print_sums(results):
    print("| RFC | files | passed | only the order of the Terminate's bits is wrong | failed "
          "| recommendations missed | not driven |\n|---|---|---|---|---|---|---|")
    for rfc in RFCS + (None,):
        rows = [r for r in results if rfc in (r.rfc, None)]
        kinds = collections.Counter("order" if r.only_order() else r.kind for r in rows)
        print(f"| {rfc or 'all'} | {len(rows)} | {kinds['pass']} | {kinds['order']} | {kinds['FAIL']} "
              f"| {kinds['should']} | {kinds['skip']} |")


def print_causes(results, causes):
    by_id = {r.ident: r for r in results}
    for title, ids, text in causes.values():
        print(f"\n### {title}\n\n{text}\n\n| id | | what the player saw |\n|---|---|---|")
        for ident in ids:
            r = by_id[ident.rstrip("?")]
            ident = r.ident
            print(f"| {ident} {r.name} | {WORD[r.kind]} | {r.seen()} |")
    order = [r.ident for r in results if r.only_order()]
    print("\n### Nothing but the order of the Terminate's bits\n\n" + ", ".join(order))


def print_all(results):
    print("\n## All files\n\n| RFC | id | name | result |\n|---|---|---|---|")
    for r in results:
        word = "bits of the Terminate" if r.only_order() else WORD[r.kind]
        if r.kind == "skip":
            word += ": " + r.why.replace("the tested end cannot do it: ", "")
        print(f"| {r.rfc} | {r.ident} | {r.name} | {word} |")


def main():
    folder, notes, version = sys.argv[1:4]
    ids = sorted(f[:-4] for f in os.listdir(folder)
                 if f.endswith(".log") and not f.endswith(".host.log"))
    results = sorted((Result(folder, i) for i in ids), key=lambda r: (r.rfc, r.ident))
    head, causes = read_notes(notes)
    check(results, causes)
    print(head.replace("VERSION", version) + "\n")
    print_sums(results)
    print("\n## What fails, and why")
    print_causes(results, causes)
    print_all(results)


main()
