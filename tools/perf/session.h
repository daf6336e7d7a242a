/* SPDX-License-Identifier: MIT */
/* One end of a job: control connection, memory, data connections (links), and the threads that drive
 * them (workers). The main thread handles events while no run is on; during one the minder does. */
#ifndef UIW_TOOLS_PERF_SESSION_H
#define UIW_TOOLS_PERF_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "stats.h"
#include "wire.h"

struct session;
struct worker;

enum { CTRL_RECVS = 4, CTRL_SENDS = 2 };

struct ctrl {
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    struct uiw_mr *mr;
    uint8_t octets[(CTRL_RECVS + CTRL_SENDS) * WIRE_MSG];
    unsigned sent;
    bool up, has_msg;
    struct wire_msg msg; /* when has_msg */
};

struct link {
    struct session *s;
    struct worker *w;
    unsigned index;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    bool up;
    uint8_t *in, *out, *back; /* back: with check, what was written is read into it */
    uint64_t remote;
    uint32_t rkey;

    /* Receives; over all runs. */
    uint64_t recv_posted;
    unsigned recv_used; /* to be posted again */
    uint64_t recv_taken;

    /* This run, warm-up included: messages. */
    uint64_t posted, retired, target, received;
    uint64_t lap_begin; /* Writes with check: a lap fills the slots once, from the first on */
    uint32_t slot, since_signal;
    bool flushing, flushed, reading_back;
    unsigned marks;
};

struct worker {
    struct session *s;
    unsigned index;
    struct link *links; /* part of the session's */
    unsigned nlinks;
    struct uiw_comp_channel *comps;
    struct uiw_cq *cq;
    pthread_t thread;
    bool running;

    /* This run. */
    uint64_t stride;                     /* of slots */
    uint32_t slots, limit;               /* limit: messages under way on a link */
    uint32_t cq_mod, post_list;          /* as the limit allows */
    uint64_t begin_ns, end_ns, messages; /* of the timed part */
    uint64_t errors;
    _Atomic uint64_t done; /* messages retired in the timed part */
    struct histogram hist;
    struct uiw_send_wr wr[PERF_BATCH];
    struct uiw_sge sge[PERF_BATCH];
    struct uiw_recv_wr recv_wr[PERF_BATCH];
    struct uiw_sge recv_sge[PERF_BATCH];
};

/* Rates while a run goes on, taken by the first worker. */
struct window {
    uint64_t at_ns, done; /* when it began, and what was done then */
};

struct sampling {
    struct window shown, counted; /* of the plot, and of the peak */
    double peak;                  /* messages a second */
    struct sample *samples;
    unsigned count;
    uint64_t every_ns;
};

struct session {
    struct tool *tool;
    struct perf_job job;
    struct perf_run run;
    bool server, polled_peer;
    uint64_t id;
    unsigned timeout_s;
    const struct sockaddr *peer; /* client: whom to connect to */
    struct ctrl ctrl;
    uint8_t *in, *out;
    struct uiw_mr *in_mr, *out_mr;
    struct link *links;
    unsigned nlinks, nup;
    struct worker *workers;
    unsigned nworkers;
    atomic_uint met; /* workers that are ready for the timed part */

    uint64_t cpu_begin_ns;
    struct sampling sampling;

    /* The first reason is the one that counts. */
    pthread_mutex_t lock;
    atomic_bool failed;
    char text[240];
    bool by_event; /* the words are those of a connection's end */
    bool told;     /* one end has told the other the reason */
    bool idle;     /* server: the client may close now */
    bool over;     /* and has */

    pthread_t minder;
    pthread_cond_t minder_wakes;
    bool minding, minder_stop, show;
};

/* --- session.c --- */

void session_init(struct session *s, struct tool *t, bool server, unsigned timeout_s);

/* Memory, workers and QPs for s->job. False: has failed. */
bool session_make(struct session *s);
/* Ends everything, in good order where nothing has failed, and frees it. */
void session_close(struct session *s);

/* Keeps the words, if they are the first, and makes everybody stop. NULL format: an event will bring
 * them. */
void session_fail(struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool session_failed(struct session *s)
{
    return atomic_load_explicit(&s->failed, memory_order_relaxed);
}

void session_event(struct session *s, const struct uiw_event *ev);

/* After a failure, without the minder. Where only the end of a connection has told of it, the other end
 * may say more. */
void session_last_words(struct session *s);

/* Waits until a message of that type came. False: has failed, or (server) the client has closed. */
bool session_await(struct session *s, enum wire_type type, struct wire_msg *msg);
/* Waits for all links. */
bool session_await_links(struct session *s);

/* Client: begins to connect all links. */
bool session_connect_links(struct session *s);
/* Server: a request for a data connection. */
void session_accept_link(struct session *s, const struct uiw_event *ev,
                         const struct wire_greeting *g);

/* Says no with words, and lets go. */
void session_refuse(struct uiw_conn *conn, const char *text);

/* --- ctrl.c --- */

bool ctrl_open(struct session *s);
void ctrl_close(struct session *s);
bool ctrl_connect(struct session *s);
bool ctrl_accept(struct session *s, struct uiw_conn *conn);
bool ctrl_send(struct session *s, const struct wire_msg *msg);
void ctrl_completion(struct session *s, const struct uiw_wc *wc);

/* --- minder.c --- */

/* Watches a run from beside: events, the user's wish to stop, standstill, the line of progress. */
bool minder_start(struct session *s);
void minder_stop(struct session *s);

/* --- link.c --- */

bool link_make(struct link *l);
/* Before a run. */
void link_reset(struct link *l);
/* Posts up to n messages of the run. */
void link_post(struct link *l, unsigned n);
/* A Read of nothing: done when the peer has all that was posted. */
void link_flush(struct link *l);
void link_read_back(struct link *l);
void link_mark(struct link *l);
void link_completion(struct link *l, const struct uiw_wc *wc);

/* --- check.c --- */

/* Content of message n of a link, as that end sends it. */
uint64_t check_seed(const struct link *l, bool from_server, uint64_t n);
void check_fill(uint8_t *to, uint64_t length, uint64_t seed);
bool check_same(const uint8_t *from, uint64_t length, uint64_t seed);
/* Before a run: what is to be read, or emptiness. */
void check_prepare(struct link *l);
/* Before the message in that slot is posted. */
void check_post(struct link *l, uint64_t n, uint32_t slot);
/* After it was retired: what was read, or what the Atomic brought. */
void check_retired(struct link *l, uint64_t n);
void check_received(struct link *l, const uint8_t *from, uint32_t length);
void check_read_back(struct link *l);

/* --- worker.c, latency.c --- */

/* Before READY is said, so that what the other end sends then is met. */
void workers_prepare(struct session *s);
/* The run, of all workers. Returns when it is over or the session has failed. */
void workers_run(struct session *s);
/* Takes completions, waiting for one where the job says so. */
void worker_poll(struct worker *w);
/* Takes completions until all links have that many marks. */
void worker_await_marks(struct worker *w, unsigned marks);
void worker_marks(struct worker *w);
/* The timed part, which all workers begin together. */
void worker_begin(struct worker *w);
void worker_end(struct worker *w, uint64_t messages);
void latency_client(struct worker *w);
void latency_server(struct worker *w);

void session_result(struct session *s, struct perf_result *r);

#endif
