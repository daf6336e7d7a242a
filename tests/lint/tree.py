# SPDX-License-Identifier: MIT
"""What the lint scripts share: the list of files in the repository, and how to report."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*suffixes):
    """Paths, relative to ROOT, of tracked and of new, not ignored files."""
    try:
        # safe.directory: a checkout may belong to another user than the one who runs the tests.
        out = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z", "-co",
             "--exclude-standard"],
            check=True, capture_output=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = list(walk())
    names = sorted(set(n for n in names if os.path.isfile(os.path.join(ROOT, n))))
    return [n for n in names if not suffixes or n.endswith(suffixes)]


def walk():
    """The same without git, as in an unpacked release."""
    for path, dirs, names in os.walk(ROOT):
        rel = os.path.relpath(path, ROOT)
        dirs[:] = [d for d in dirs if d != ".git" and not d.startswith("build")
                   and os.path.normpath(os.path.join(rel, d)) != "subprojects/lwip"]
        for name in names:
            yield os.path.normpath(os.path.join(rel, name))


def text(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def finish(faults, what):
    """Prints the faults and ends the program."""
    for fault in faults:
        print(fault)
    print(f"{what}: {len(faults)} fault(s)" if faults else f"{what}: ok")
    sys.exit(1 if faults else 0)
