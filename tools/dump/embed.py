#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""embed.py IN OUT: the page as two C arrays, what stands before the data and what behind."""

import sys


def array(name, data):
    rows = [", ".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24)]
    return (f"const unsigned char {name}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n"
            f"const unsigned {name}_len = sizeof {name};\n")


with open(sys.argv[1], "rb") as f:
    head, tail = f.read().split(b"<!--DATA-->\n")
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('#include "page.h"\n\n' + array("page_head", head) + array("page_tail", tail))
