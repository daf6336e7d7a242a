/* SPDX-License-Identifier: MIT */
/* What both ends of uiw-stream need: see stream.h. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

static const char place_magic[4] = "UIWS";

static int post_recv(struct stream_end *end, uint64_t slot)
{
    struct uiw_sge sge = {
        .addr = uiw_mr_addr(end->notes_mr) + (2 + slot) * STREAM_NOTE,
        .length = STREAM_NOTE,
        .lkey = uiw_mr_lkey(end->notes_mr),
    };
    struct uiw_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

    if (uiw_qp_post_recv(end->qp, &wr, NULL) != 0)
        return tool_fail("%s", uiw_error());
    return TOOL_OK;
}

static int make_qp(struct stream_end *end)
{
    struct uiw_qp_attr attr = {
        .send_cq = end->tool->cq,
        .recv_cq = end->tool->cq,
        .max_send_wr = STREAM_DEPTH,
        .max_recv_wr = STREAM_NOTES,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .sig_all = true,
    };
    int r = TOOL_OK;

    if (uiw_qp_create(end->tool->pd, &attr, &end->qp) != 0)
        return tool_fail("%s", uiw_error());
    for (uint64_t slot = 0; r == TOOL_OK && slot < STREAM_NOTES; slot++)
        r = post_recv(end, slot);
    return r;
}

int stream_open(struct tool *t, unsigned access, struct stream_end *end)
{
    uint64_t window = 2 * (uint64_t)STREAM_HALF, notes = (2 + STREAM_NOTES) * STREAM_NOTE;

    *end = (struct stream_end){.tool = t};
    end->window = aligned_alloc(4096, window);
    end->notes = calloc(1, notes);
    if (end->window == NULL || end->notes == NULL)
        return tool_fail("no memory");
    /* Touched now, the pages cost the stream no time. */
    memset(end->window, 0, window);
    if (uiw_mr_reg(t->pd, end->window, window, access, &end->window_mr) != 0 ||
        uiw_mr_reg(t->pd, end->notes, notes, UIW_ACCESS_LOCAL_WRITE, &end->notes_mr) != 0)
        return tool_fail("%s", uiw_error());
    return make_qp(end);
}

void stream_close(struct stream_end *end)
{
    if (end->conn != NULL)
        (void)uiw_conn_destroy(end->conn);
    if (end->qp != NULL)
        (void)uiw_qp_destroy(end->qp);
    if (end->notes_mr != NULL)
        (void)uiw_mr_dereg(end->notes_mr);
    if (end->window_mr != NULL)
        (void)uiw_mr_dereg(end->window_mr);
    free(end->notes);
    free(end->window);
}

static void put_be64(uint8_t *p, uint64_t value)
{
    value = htobe64(value);
    memcpy(p, &value, sizeof value);
}

static uint64_t get_be64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, sizeof value);
    return be64toh(value);
}

int stream_send_note(struct stream_end *end, const struct stream_note *note)
{
    uint64_t at = (note->lap & 1) * STREAM_NOTE;
    struct uiw_sge sge = {
        .addr = uiw_mr_addr(end->notes_mr) + at,
        .length = STREAM_NOTE,
        .lkey = uiw_mr_lkey(end->notes_mr),
    };
    struct uiw_send_wr wr = {.opcode = UIW_WR_SEND, .sg_list = &sge, .num_sge = 1};

    put_be64(end->notes + at, note->lap);
    put_be64(end->notes + at + 8, note->length);
    put_be64(end->notes + at + 16, note->checksum);
    if (uiw_qp_post_send(end->qp, &wr, NULL) != 0)
        return tool_fail("%s", uiw_error());
    return TOOL_OK;
}

int stream_take_note(struct stream_end *end, const struct uiw_wc *wc, struct stream_note *note)
{
    const uint8_t *p = end->notes + (2 + wc->wr_id) * STREAM_NOTE;

    if (wc->byte_len != STREAM_NOTE)
        return tool_fail("the peer does not speak uiw-stream");
    note->lap = get_be64(p);
    note->length = get_be64(p + 8);
    note->checksum = get_be64(p + 16);
    return post_recv(end, wc->wr_id);
}

bool stream_await_event(struct stream_end *end, uint64_t ms, struct uiw_event *ev)
{
    uint64_t last = tool_now_ns() + ms * 1000000;
    struct uiw_wc wc;

    do {
        if (tool_event(end->tool, ev))
            return true;
    } while (tool_wait(end->tool, &wc, STREAM_TURN_MS) >= 0 && tool_now_ns() < last);
    return false;
}

void stream_put_place(const struct stream_end *end, uint8_t *data)
{
    uint32_t rkey = htobe32(uiw_mr_rkey(end->window_mr));

    memcpy(data, place_magic, 4);
    memcpy(data + 4, &rkey, 4);
    put_be64(data + 8, uiw_mr_addr(end->window_mr));
}

bool stream_get_place(const uint8_t *data, uint32_t length, uint64_t *addr, uint32_t *rkey)
{
    uint32_t key;

    if (length < STREAM_PLACE || memcmp(data, place_magic, 4) != 0)
        return false;
    memcpy(&key, data + 4, 4);
    *rkey = be32toh(key);
    *addr = get_be64(data + 8);
    return true;
}

static uint64_t mix(uint64_t sum, const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    sum = (sum ^ le64toh(word)) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 32;
}

uint64_t stream_checksum(uint64_t start, const void *data, uint64_t length)
{
    /* Lanes, because one chain of multiplications would take longer than the transfer. */
    enum { LANES = 8, BLOCK = 8 * LANES };
    uint64_t lane[LANES], sum = start ^ length;
    uint8_t rest[BLOCK] = {0};
    const uint8_t *p = data;

    for (unsigned i = 0; i < LANES; i++)
        lane[i] = i;
    for (; length >= BLOCK; length -= BLOCK, p += BLOCK) {
        for (unsigned i = 0; i < LANES; i++)
            lane[i] = mix(lane[i], p + 8 * i);
    }
    memcpy(rest, p, length);
    for (unsigned i = 0; i < LANES; i++) {
        uint64_t last = htole64(mix(lane[i], rest + 8 * i));

        sum = mix(sum, (const uint8_t *)&last);
    }
    return sum;
}
