#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the #include lines of the sources against the table of who may see whom."""

import os
import re

import tree

# Layer -> the other layers it may include.
MAY_INCLUDE = {
    "base": set(),
    "mpa": {"base"},
    "ddp": {"base"},
    "rdmap": {"ddp", "base"},
    "tcpip": {"base"},
    "api": {"rdmap", "ddp", "mpa", "tcpip", "base"},
    "compat": {"api"},
}
# The protocol layers are pure: no I/O, clocks, threads or allocation.
PURE = {"mpa", "ddp", "rdmap"}
PURE_SYSTEM = {"assert.h", "errno.h", "limits.h", "stdalign.h", "stdbool.h", "stddef.h",
               "stdint.h", "string.h"}
# In api, only these files bring the transport and the protocols together. ddp does not count: the
# STag table is part of the device and its memory.
JOINS = re.compile(r"src/api/conn[^/]*\.[ch]$")
JOINED = {"mpa", "rdmap"}
# Programs see the public header; those that take frames apart see the codecs.
PROGRAMS = ("tools/", "examples/")
CODEC_TOOLS = re.compile(r"tools/(uiw-dump[^/]*|dump/[^/]*)\.[ch]$")
CODECS = {"mpa", "ddp", "rdmap", "base"}
# The player of vector files is a peer: it has the codecs, and streams of octets to send them on.
PLAYER = re.compile(r"tools/conform/[^/]*\.[ch]$")
PLAYER_HEADERS = {"tcpip/net.h", "api/devspec.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
LWIP = re.compile(r"^(lwip|netif|arch)/|^(lwipopts|uiw_hooks)\.h$")


def layer_of(header):
    first = header.split("/")[0]
    return first if "/" in header and first in MAY_INCLUDE else None


def src_fault(name, layer, quoted, header):
    """Why 'name', a file of 'layer', may not include 'header', or None."""
    if LWIP.match(header):
        return None if layer == "tcpip" else "lwIP headers belong in src/tcpip only"
    other = layer_of(header)
    if other and other != layer and other not in MAY_INCLUDE[layer]:
        return f"{layer} may not include {other}"
    if layer == "compat" and other == "api" and header != "api/uiw.h":
        return "compat may include the public header only"
    if other or header == "uiw.h":
        return None
    if layer in PURE and header not in PURE_SYSTEM:
        return f"{layer} is pure and may not include this"
    if quoted:
        return 'project includes are written "layer/file.h"'
    return None


def program_fault(name, quoted, header):
    if header in ("api/uiw.h", "uiw.h"):
        return None
    other = layer_of(header)
    if other is None:
        if LWIP.match(header):
            return "lwIP headers belong in src/tcpip only"
        here = os.path.join(tree.ROOT, os.path.dirname(name), header)
        return None if not quoted or os.path.isfile(here) else "no such file beside this one"
    if (CODEC_TOOLS.match(name) or PLAYER.match(name)) and other in CODECS:
        return None
    if PLAYER.match(name) and header in PLAYER_HEADERS:
        return None
    return "programs may include api/uiw.h only"


def check(name):
    parts = name.split("/")
    layer = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    if layer and layer not in MAY_INCLUDE:
        yield f"{name}: folder src/{layer} is not in the table of {os.path.basename(__file__)}"
        return
    seen = {layer}
    for number, line in enumerate(tree.text(name).splitlines(), 1):
        m = INCLUDE.match(line)
        if not m:
            continue
        quoted, header = m.group(1) == '"', m.group(2)
        seen.add(layer_of(header))
        fault = (src_fault(name, layer, quoted, header) if layer
                 else program_fault(name, quoted, header))
        if fault:
            yield f"{name}:{number}: {header}: {fault}"
    if layer == "api" and not JOINS.match(name) and seen & JOINED:
        yield f"{name}: only src/api/conn*.[ch] may see mpa and rdmap"


faults = []
for source in tree.files(".c", ".h"):
    if source.startswith(("src/",) + PROGRAMS):
        faults.extend(check(source))
tree.finish(faults, "includes")
