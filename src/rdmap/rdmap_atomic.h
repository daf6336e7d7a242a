/* SPDX-License-Identifier: MIT */
/* Atomic Operations on memory (RFC 7306 sec 5.1): what a value becomes, and making it so. */
#ifndef UIW_RDMAP_RDMAP_ATOMIC_H
#define UIW_RDMAP_RDMAP_ATOMIC_H

#include "rdmap/rdmap_hdr.h"

/* Whether that AOpCode is one of RFC 7306 fig. 5, all of which are implemented. */
bool rdmap_atomic_known(unsigned op);

/* What a value becomes by the operation, which is a known one. */
uint64_t rdmap_atomic_result(const struct rdmap_atomic_request *r, uint64_t original);

/* Does the operation on the 8 octets at p, aligned to 8, that hold a number in the order of this
 * machine. Nothing that writes them by an atomic instruction, be it another stream or the program,
 * comes between (RFC 7306 sec 5.3 asks this for Atomics of the device only). Returns the value before. */
uint64_t rdmap_atomic_execute(const struct rdmap_atomic_request *r, uint8_t *p);

#endif
