/* SPDX-License-Identifier: MIT */
/* What a job may be, and what it needs: the same for who asks and for who is asked. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP = 256 << 10, CHECK_SLOTS = 4 };

const char *perf_op_text(enum perf_op op)
{
    static const char *const names[] = {"write", "read", "send", "fetchadd", "cmpswap"};

    return names[op];
}

const char *perf_test_text(const struct perf_job *job)
{
    return job->lat ? "latency" : "bandwidth";
}

static const char *depth_fault(const struct perf_job *job)
{
    if (job->tx_depth == 0 || job->tx_depth > PERF_MAX_DEPTH)
        return "tx-depth must be 1..8192";
    if (job->rx_depth == 0 || job->rx_depth > PERF_MAX_DEPTH)
        return "rx-depth must be 1..8192";
    if (job->post_list == 0 || job->post_list > PERF_BATCH)
        return "post_list must be 1..64";
    if (job->cq_mod == 0 || job->cq_mod + job->post_list > job->tx_depth + 1)
        return "cq-mod and post_list together must not exceed tx-depth + 1";
    if (job->max_inline > PERF_MAX_INLINE)
        return "inline_size must be 0..1024";
    if (job->outs > PERF_MAX_OUTS)
        return "outs must be 1..128";
    return NULL;
}

const char *perf_job_fault(const struct perf_job *job)
{
    if (job->op > PERF_CMP_SWAP)
        return "unknown operation";
    if (job->threads == 0 || job->threads > PERF_MAX_THREADS)
        return "threads must be 1..64";
    if (job->qps == 0 || job->qps > PERF_MAX_LINKS / job->threads)
        return "at most 1024 QPs in all threads";
    if (job->lat && job->qps != 1)
        return "latency takes one QP for each thread";
    if (job->lat && job->bidir)
        return "bidirectional is for bandwidth";
    if (job->max_size == 0 || job->max_size > PERF_MAX_SIZE)
        return "size must be 1..1g";
    if (perf_is_atomic(job) && job->max_size != 8)
        return "an Atomic has 8 octets";
    if (depth_fault(job) != NULL)
        return depth_fault(job);
    if ((uint64_t)job->threads * job->qps * (job->tx_depth + job->rx_depth) > PERF_MAX_QUEUED)
        return "QPs times depths exceeds 1048576";
    return NULL;
}

const char *perf_run_fault(const struct perf_job *job, const struct perf_run *run)
{
    if (run->size == 0 || run->size > job->max_size)
        return "size of a run outside the job's";
    if (run->count > PERF_MAX_COUNT || run->warmup > PERF_MAX_COUNT)
        return "count above 2^40";
    if ((run->count == 0) == (run->duration_ns == 0))
        return "either a count or a duration";
    if (run->duration_ns > PERF_MAX_SECONDS * UINT64_C(1000000000))
        return "duration above a day";
    return NULL;
}

uint64_t perf_area(const struct perf_job *job)
{
    uint64_t need = perf_stride(job->max_size) * (job->check ? CHECK_SLOTS : 1);

    return need > KEEP ? need : KEEP;
}

uint64_t perf_memory(const struct perf_job *job)
{
    /* What comes in, what goes out, and what was written and is read back to be checked. */
    return (uint64_t)job->threads * job->qps * perf_area(job) * (job->check ? 3 : 2);
}

char *perf_device(const struct perf_options *o)
{
    const struct {
        const char *key, *value;
    } keys[] = {{"crc", o->crc}, {"markers", o->markers}, {"progress", o->progress}};
    const char *given = o->device != NULL ? o->device : getenv("UIW_DEVICE");
    char *spec;

    if (given == NULL || given[0] == '\0') {
        tool_misused("no device: give --device KIND:NAME,ip=A.B.C.D/LEN or set UIW_DEVICE");
        return NULL;
    }
    spec = strdup(given);
    for (size_t i = 0; spec != NULL && i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].value != NULL)
            spec = tool_with_key(spec, keys[i].key, keys[i].value);
    }
    if (spec != NULL && strstr(spec, ",rnr=") == NULL)
        spec = tool_with_key(spec, "rnr", "600");
    spec = tool_with_setup(spec, o->timeout_s);
    if (spec == NULL)
        tool_fail("no memory");
    return spec;
}
