/* SPDX-License-Identifier: MIT */
/* siwr [PORT]: the responder of uiw-conform on the first RDMA device of the machine, by verbs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"
#include "verbs_api.h"

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    (void)sig;
    stopped = 1;
}

/* siw has no settings for a device; those that match are the driver's. It has no Markers. */
static bool keys_ok(const char *keys)
{
    bool crc = false;
    char text[120], *save = NULL;
    snprintf(text, sizeof text, "%s", keys);
    for (char *k = strtok_r(text, ";", &save); k != NULL; k = strtok_r(NULL, ";", &save)) {
        crc |= strcmp(k, "crc=on") == 0;
        if (strcmp(k, "crc=on") != 0 && strcmp(k, "crc=off") != 0 &&
            strcmp(k, "markers=off") != 0) {
            return false;
        }
    }
    return siw_set("mpa_crc_required", crc);
}

int main(int argc, char **argv)
{
    const struct resp_cfg cfg = {.hello = "siw, blind,",
                                 .keys_ok = keys_ok,
                                 .lasting = true,
                                 .spec = "siw",
                                 .port = (uint16_t)(argc > 1 ? atoi(argv[1]) : 7174),
                                 .trace = stdout};
    struct resp *r;
    if (resp_open(&cfg, &r) != 0) {
        fprintf(stderr, "siwr: %s\n", uiw_error());
        return EXIT_FAILURE;
    }
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    while (!stopped) {
        resp_turn(r, 20);
        fflush(stdout);
    }
    resp_close(r);
    return EXIT_SUCCESS;
}
