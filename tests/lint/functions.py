#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Limits on size: lines of a function and of a file, parameters of a function.

Relies on the format that clang-format enforces: the brace that opens a function body is alone in
the first column, and so is the one that closes it.
"""

import re

import tree

MAX_FUNCTION = 80
MAX_FILE = 600
MAX_PARAMS = 5

# (file, function or "" for the file itself) -> why it may exceed the limits.
EXCEPTIONS = {
    ("src/tcpip/tcp_recovery.c", "uiw_lwip_tcp_in"): "lwIP's hook prescribes the parameters",
}

NAME = re.compile(r"(\w+)\s*\(")


def blank_literals(source):
    """Replaces comments, strings and character constants by spaces; lines stay where they are."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), source)


def signature(lines, brace):
    """The text of the declaration that ends just above line index 'brace'."""
    first = brace
    while first > 0:
        line = lines[first - 1].rstrip()
        if not line or line.startswith(("#", "}")) or line.endswith(";"):
            break
        first -= 1
    return " ".join(lines[first:brace])


def split_params(text):
    """Name of the function and number of its parameters."""
    # Attributes may stand before the name and have parentheses of their own.
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text)
    m = NAME.search(text)
    if not m:
        return "?", 0
    depth, commas, inner = 1, 0, ""
    for c in text[m.end():]:
        depth += (c == "(") - (c == ")")
        if depth == 0:
            break
        commas += c == "," and depth == 1
        inner += c
    return m.group(1), 0 if inner.strip() in ("", "void") else commas + 1


def check(name):
    lines = blank_literals(tree.text(name)).split("\n")
    count = len(lines) - 1
    if count > MAX_FILE and (name, "") not in EXCEPTIONS:
        yield f"{name}: {count} lines, limit {MAX_FILE}"
    start = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{" and start is None:
            start = i
        elif line.startswith("}") and start is not None:
            func, params = split_params(signature(lines, start))
            length = i - start - 1
            start = None
            if (name, func) in EXCEPTIONS:
                continue
            where = f"{name}:{i - length}: {func}"
            if length > MAX_FUNCTION:
                yield f"{where}: {length} lines, limit {MAX_FUNCTION}"
            if params > MAX_PARAMS:
                yield f"{where}: {params} parameters, limit {MAX_PARAMS}"


faults = []
for source in tree.files(".c", ".h"):
    if not source.startswith("subprojects/"):
        faults.extend(check(source))
tree.finish(faults, "functions")
