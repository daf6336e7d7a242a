#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the format of all C sources with clang-format; with --fix, changes them."""

import shutil
import subprocess
import sys

import tree

if not shutil.which("clang-format"):
    print("format: skipped, clang-format is not installed")
    sys.exit(77)

sources = tree.files(".c", ".h")
mode = ["-i"] if sys.argv[1:] == ["--fix"] else ["--dry-run", "-Werror"]
if sources:
    done = subprocess.run(["clang-format", "--style=file"] + mode + sources, cwd=tree.ROOT,
                          capture_output=True, text=True)
    if done.returncode:
        # A misplaced line yields three lines of report; the place is what matters.
        places = [l for l in done.stderr.splitlines() if "error:" in l]
        print("\n".join(places[:40] or [done.stderr]))
        print(f"format: {len(places)} fault(s); tests/lint/format.py --fix mends them")
        sys.exit(1)
print("format: ok")
