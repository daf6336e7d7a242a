/* SPDX-License-Identifier: MIT */
/* Protection domains and regions. */
#ifndef UIW_API_MEMORY_H
#define UIW_API_MEMORY_H

#include "api/device.h"

struct uiw_pd {
    struct uiw_device *dev;
    uint32_t id;
    unsigned children; /* regions, SRQs, QPs; under the loop's lock */
};

struct uiw_mr {
    struct ddp_mem mem;
    struct uiw_pd *pd;
};

/* What a QP may do with an sge or its peer with an STag goes through ddp_mem_check() each time: nothing
 * keeps a pointer into a region past one segment, save TCP for what was lent to it. */

#endif
