/* SPDX-License-Identifier: MIT */
/* Rings of pieces: only streams that have something to send have one. */
#include <stdlib.h>

#include "tcpip/lw.h"

enum { ITEMS_HELD = 64 }; /* unused rings */

bool lw_items_stock(struct lw_net *net)
{
    if (net->items == NULL) {
        net->items = calloc(1, sizeof *net->items);
        net->chunks.starved |= net->items == NULL;
        net->items_held = net->items != NULL;
    }
    return net->items != NULL;
}

void lw_items_take(struct lw_stream *s)
{
    struct lw_net *net = s->net;
    if (s->items == NULL) {
        s->items = net->items;
        net->items = s->items->next;
        net->items_held--;
        net->items_out++;
        s->item_first = 0;
    }
}

void lw_items_give_back(struct lw_stream *s)
{
    struct lw_items *items = s->items;
    struct lw_net *net = s->net;
    if (items == NULL) {
        return;
    }
    s->items = NULL;
    net->items_out--;
    if (net->items_held == ITEMS_HELD) {
        free(items);
        return;
    }
    items->next = net->items;
    net->items = items;
    net->items_held++;
}

void lw_items_free(struct lw_net *net)
{
    while (net->items != NULL) {
        struct lw_items *items = net->items;
        net->items = items->next;
        free(items);
    }
}
