/* SPDX-License-Identifier: MIT */
/* A first program: the client writes a line into the server's memory and sends a note about it.
 *   UIW_DEVICE=shm:/first,ip=198.18.0.1/24 example-first              # the server
 *   UIW_DEVICE=shm:/first,ip=198.18.0.2/24 example-first 198.18.0.1   # the client
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/uiw.h"

#define TRY(call) ((call) < 0 ? (fprintf(stderr, "first: %s\n", uiw_error()), exit(1)) : (void)0)

static char memory[64];
static struct uiw_device *dev;
static struct uiw_event_channel *events;
static struct uiw_pd *pd;
static struct uiw_mr *mr;
static struct uiw_cq *cq;
static struct uiw_qp *qp;
static struct uiw_conn *conn;
static struct uiw_listener *listener;
static struct uiw_event ev;

static void await(enum uiw_event_type type)
{
    TRY(uiw_event_get(events, &ev));
    if (ev.type != type) {
        fprintf(stderr, "first: %s: %s\n", uiw_event_type_text(ev.type), ev.text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(7176)};
    TRY(uiw_device_open(NULL, &dev)); /* as UIW_DEVICE says */
    TRY(uiw_event_channel_create(dev, &events));
    TRY(uiw_pd_create(dev, &pd));
    TRY(uiw_mr_reg(pd, memory, sizeof memory, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE,
                   &mr));
    TRY(uiw_cq_create(dev, 8, NULL, NULL, &cq));
    struct uiw_qp_attr attr = {.send_cq = cq, .recv_cq = cq, .max_send_wr = 2, .max_recv_wr = 1};
    TRY(uiw_qp_create(pd, &attr, &qp));
    if (argc < 2) { /* the server tells the client where to write, then waits for the note */
        uint64_t place[2] = {uiw_mr_addr(mr), uiw_mr_rkey(mr)};
        struct uiw_conn_param param = {.private_data = place, .private_len = sizeof place};
        struct uiw_wc wc;
        TRY(uiw_listen(events, (struct sockaddr *)&addr, 1, NULL, &listener));
        await(UIW_EVENT_CONNECT_REQUEST);
        TRY(uiw_qp_post_recv(qp, &(struct uiw_recv_wr){.wr_id = 1}, NULL));
        TRY(uiw_accept(conn = ev.conn, qp, &param));
        await(UIW_EVENT_ESTABLISHED);
        await(UIW_EVENT_DISCONNECTED);
        TRY(uiw_cq_poll(cq, 1, &wc));
        printf("%s: the client wrote \"%s\"\n", uiw_wc_status_text(wc.status), memory);
    } else {
        uint64_t place[2];
        inet_pton(AF_INET, argv[1], &addr.sin_addr);
        TRY(uiw_connect(events, qp, (struct sockaddr *)&addr, NULL, &conn));
        await(UIW_EVENT_ESTABLISHED);
        memcpy(place, ev.private_data, sizeof place);
        strcpy(memory, "hello over iWARP");
        struct uiw_sge line = {uiw_mr_addr(mr), sizeof memory, uiw_mr_lkey(mr)};
        struct uiw_send_wr note = {.opcode = UIW_WR_SEND}; /* arrives after what was written */
        struct uiw_send_wr write = {.opcode = UIW_WR_RDMA_WRITE,
                                    .sg_list = &line,
                                    .num_sge = 1,
                                    .remote_addr = place[0],
                                    .rkey = (uint32_t)place[1],
                                    .next = &note};
        TRY(uiw_qp_post_send(qp, &write, NULL));
        TRY(uiw_disconnect(conn)); /* what is posted goes out first */
        await(UIW_EVENT_DISCONNECTED);
    }
    TRY(uiw_conn_destroy(conn));
    TRY(listener != NULL ? uiw_listener_destroy(listener) : 0);
    TRY(uiw_qp_destroy(qp));
    TRY(uiw_cq_destroy(cq));
    TRY(uiw_mr_dereg(mr));
    TRY(uiw_pd_destroy(pd));
    TRY(uiw_event_channel_destroy(events));
    TRY(uiw_device_close(dev));
    return 0;
}
