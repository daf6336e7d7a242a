/* SPDX-License-Identifier: MIT */
/* Doubly linked lists through nodes inside their owners. */
#ifndef UIW_BASE_LIST_H
#define UIW_BASE_LIST_H

#include "base/base.h"

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

/* True for an empty list, and for a node that is on none. */
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_append(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}

static inline void list_prepend(struct list *l, struct list *node)
{
    list_append(l->next, node);
}

/* Leaves the node on no list; harmless when it was on none. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_shift(struct list *l)
{
    struct list *node = l->next;
    if (node == l) {
        return NULL;
    }
    list_remove(node);
    return node;
}

/* Moves all of 'from' to the end of l. */
static inline void list_join(struct list *l, struct list *from)
{
    if (list_empty(from)) {
        return;
    }
    from->next->prev = l->prev;
    from->prev->next = l;
    l->prev->next = from->next;
    l->prev = from->prev;
    list_init(from);
}

#define LIST_EACH(it, l) for (struct list *it = (l)->next; it != (l); it = it->next)

#endif
