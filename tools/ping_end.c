/* SPDX-License-Identifier: MIT */
/* What both ends of uiw-ping need: see ping.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

enum { NOTE_OUT = 0, NOTE_IN = PING_NOTE };

int ping_buffer_make(struct tool *t, uint32_t size, unsigned access, struct ping_buffer *b)
{
    *b = (struct ping_buffer){.data = calloc(1, size), .size = size};
    if (b->data == NULL)
        return tool_fail("no memory for %" PRIu32 " octets", size);
    if (uiw_mr_reg(t->pd, b->data, size, access, &b->mr) != 0) {
        free(b->data);
        *b = (struct ping_buffer){0};
        return tool_fail("%s", uiw_error());
    }
    return TOOL_OK;
}

void ping_buffer_free(struct ping_buffer *b)
{
    if (b->mr != NULL && uiw_mr_dereg(b->mr) != 0)
        tool_fail("%s", uiw_error());
    free(b->data);
    *b = (struct ping_buffer){0};
}

static int make_qp(struct ping_end *end, void *user)
{
    struct uiw_qp_attr attr = {
        .send_cq = end->tool->cq,
        .recv_cq = end->tool->cq,
        .max_send_wr = 4,
        .max_recv_wr = 2,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .sig_all = true,
        .user = user,
    };

    if (uiw_qp_create(end->tool->pd, &attr, &end->qp) != 0)
        return tool_fail("%s", uiw_error());
    return ping_post_recv(end);
}

int ping_end_open(struct tool *t, void *user, struct ping_end *end)
{
    int r;

    *end = (struct ping_end){.tool = t};
    r = ping_buffer_make(t, 2 * PING_NOTE, UIW_ACCESS_LOCAL_WRITE, &end->notes);
    if (r == TOOL_OK)
        r = make_qp(end, user);
    if (r != TOOL_OK)
        ping_end_close(end);
    return r;
}

void ping_end_close(struct ping_end *end)
{
    if (end->conn != NULL)
        (void)uiw_conn_destroy(end->conn);
    if (end->qp != NULL)
        (void)uiw_qp_destroy(end->qp);
    ping_buffer_free(&end->notes);
    end->conn = NULL;
    end->qp = NULL;
}

static struct uiw_sge part_of(const struct ping_buffer *b, uint32_t offset, uint32_t length)
{
    return (struct uiw_sge){
        .addr = uiw_mr_addr(b->mr) + offset,
        .length = length,
        .lkey = uiw_mr_lkey(b->mr),
    };
}

int ping_post_recv(struct ping_end *end)
{
    struct uiw_sge sge = part_of(&end->notes, NOTE_IN, PING_NOTE);
    struct uiw_recv_wr wr = {.wr_id = PING_RECV, .sg_list = &sge, .num_sge = 1};

    if (uiw_qp_post_recv(end->qp, &wr, NULL) != 0)
        return tool_fail("%s", uiw_error());
    return TOOL_OK;
}

static int post(struct ping_end *end, struct uiw_send_wr *wr)
{
    if (uiw_qp_post_send(end->qp, wr, NULL) != 0)
        return tool_fail("%s", uiw_error());
    return TOOL_OK;
}

int ping_post_send(struct ping_end *end)
{
    struct uiw_sge sge = part_of(&end->notes, NOTE_OUT, PING_NOTE);
    struct uiw_send_wr wr = {
        .wr_id = PING_SEND, .opcode = UIW_WR_SEND, .sg_list = &sge, .num_sge = 1};

    return post(end, &wr);
}

int ping_post_rdma(struct ping_end *end, enum ping_work work, const struct ping_buffer *b,
                   const struct ping_place *at)
{
    struct uiw_sge sge = part_of(b, 0, at->size);
    struct uiw_send_wr wr = {
        .wr_id = work,
        .opcode = work == PING_READ ? UIW_WR_RDMA_READ : UIW_WR_RDMA_WRITE,
        .sg_list = &sge,
        .num_sge = 1,
        .remote_addr = at->addr,
        .rkey = at->rkey,
    };

    return post(end, &wr);
}

static void put_be(char *p, unsigned octets, uint64_t value)
{
    for (unsigned i = 0; i < octets; i++)
        p[i] = (char)(value >> 8 * (octets - 1 - i));
}

static uint64_t get_be(const char *p, unsigned octets)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < octets; i++)
        value = value << 8 | (uint8_t)p[i];
    return value;
}

void ping_note_set(struct ping_end *end, const struct ping_buffer *b)
{
    char *note = end->notes.data + NOTE_OUT;

    put_be(note, 8, uiw_mr_addr(b->mr));
    put_be(note + 8, 4, uiw_mr_rkey(b->mr));
    put_be(note + 12, 4, b->size);
}

void ping_note_get(const struct ping_end *end, struct ping_place *at)
{
    const char *note = end->notes.data + NOTE_IN;

    at->addr = get_be(note, 8);
    at->rkey = (uint32_t)get_be(note + 8, 4);
    at->size = (uint32_t)get_be(note + 12, 4);
}

void ping_text(uint64_t number, struct ping_buffer *b)
{
    /* The letters from 'A' to 'z', beginning one further with each ping. */
    enum { FIRST = 'A', LETTERS = 'z' - 'A' + 1 };
    int start = snprintf(b->data, b->size, "rdma-ping-%d: ", (int)(number & 0x7fffffff));
    unsigned letter = (unsigned)(number % LETTERS);

    for (uint32_t i = (uint32_t)start; i < b->size; i++) {
        b->data[i] = (char)(FIRST + letter);
        letter = letter + 1 == LETTERS ? 0 : letter + 1;
    }
    b->data[b->size - 1] = '\0';
}

void ping_print(const char *title, const void *data, uint32_t len)
{
    const unsigned char *d = data;

    fputs(title, stdout);
    for (uint32_t i = 0; i < len && d[i] != 0; i++)
        putchar(d[i] >= 0x20 && d[i] < 0x7f ? d[i] : '.');
    putchar('\n');
}
