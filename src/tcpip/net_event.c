/* SPDX-License-Identifier: MIT */
/* Who has news for the owner of the loop. A round of net_next() shows each one once. */
#include "tcpip/net_base.h"

void net_tell(struct net *net, struct net_news *n, unsigned events)
{
    n->events |= events;
    if (list_empty(&n->node)) {
        list_append(&net->ready, &n->node);
    }
}

void net_forget(struct net_news *n)
{
    list_remove(&n->node);
    n->events = 0;
}

static void later_becomes_ready(struct net *net)
{
    struct list *node;
    while ((node = list_shift(&net->later)) != NULL) {
        list_append(&net->ready, node);
    }
}

struct net_ready net_next(struct net *net)
{
    struct list *node = list_shift(&net->ready);
    if (node == NULL) {
        later_becomes_ready(net);
        return (struct net_ready){0};
    }
    struct net_news *n = CONTAINER_OF(node, struct net_news, node);
    struct net_ready r = {.events = n->events};
    n->events = 0;
    if (n->listener) {
        r.listener = CONTAINER_OF(n, struct net_listener, news);
        r.user = r.listener->user;
    } else {
        r.stream = CONTAINER_OF(n, struct net_stream, news);
        r.user = r.stream->user;
    }
    return r;
}

void net_stream_again(struct net_stream *s, unsigned events)
{
    if (events != 0) {
        s->news.events |= events;
        list_remove(&s->news.node);
        list_append(&s->net->later, &s->news.node);
    }
}
