/* SPDX-License-Identifier: MIT */
/* Memory of a job, in pages of the size that was asked for. */
#ifndef UIW_TOOLS_PERF_PAGES_H
#define UIW_TOOLS_PERF_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* So many octets, all zero and there already, so that a run pays for no page. With huge they lie in pages of 2 MB,
 * all of them, else none. NULL, and errno says why: ENOMEM, or with huge that of MADV_COLLAPSE (madvise(2)), EINVAL
 * where the kernel has no such call or no such pages. */
uint8_t *pages_make(uint64_t size, bool huge);
void pages_free(uint8_t *p, uint64_t size); /* as given to pages_make(); p may be NULL */

#endif
