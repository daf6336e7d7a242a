/* SPDX-License-Identifier: MIT */
/* page.html, as embed.py makes it. */
#ifndef UIW_DUMP_PAGE_H
#define UIW_DUMP_PAGE_H

extern const unsigned char page_head[], page_tail[];
extern const unsigned page_head_len, page_tail_len;

#endif
