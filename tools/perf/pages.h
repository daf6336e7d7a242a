/* SPDX-License-Identifier: MIT */
/* Memory of a job, in pages of the size that was asked for. */
#ifndef UIW_TOOLS_PERF_PAGES_H
#define UIW_TOOLS_PERF_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* So many octets, all zero and there already, so that a run pays for no page; to be freed. With huge they
 * lie in huge pages, all of them. NULL, and errno says why: ENOMEM, or with huge that of MADV_COLLAPSE
 * (madvise(2)), EINVAL where the kernel has no such call or no such pages. */
uint8_t *pages_make(uint64_t size, bool huge);

#endif
