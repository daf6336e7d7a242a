#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps out of the repository what does not belong there: paths of one machine, names of package
servers (setup.sh takes them from the machine), large files, copies of lwIP."""

import os

import tree

MAX_BYTES = 2 * 1024 * 1024

# Put together here, or this file would find itself.
PATHS = ["/" + "work/", "/tmp/" + "bash_"]
HOSTS = [".".join(p) for p in (
    ("deb", "debian", "org"), ("security", "debian", "org"), ("snapshot", "debian", "org"),
    ("archive", "ubuntu", "com"), ("registry", "npmjs", "org"), ("pypi", "org"),
    ("files", "pythonhosted", "org"), ("crates", "io"), ("proxy", "golang", "org"))]
LWIP_LICENSE = b"Swedish Institute of " + b"Computer Science"


def check(name):
    path = os.path.join(tree.ROOT, name)
    size = os.path.getsize(path)
    if size > MAX_BYTES:
        yield f"{name}: {size} bytes, limit {MAX_BYTES}"
        return
    with open(path, "rb") as f:
        data = f.read()
    for word in PATHS + HOSTS:
        at = data.find(word.encode())
        if at >= 0:
            yield f"{name}:{data.count(10, 0, at) + 1}: names {word}"
    if name.endswith((".c", ".h")) and LWIP_LICENSE in data[:4096]:
        yield f"{name}: a file of lwIP; setup.sh fetches those"


faults = []
for file in tree.files():
    faults.extend(check(file))
tree.finish(faults, "repo")
