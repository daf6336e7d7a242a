/* SPDX-License-Identifier: MIT */
/* Device strings. What is accepted is within the limits that uiw.h names, and the same again; what is
 * refused is refused in words. */
#include <errno.h>
#include <net/if.h>

#include "api/devspec.h"
#include "fuzz.h"

static bool ends(const char *text, size_t room)
{
    return memchr(text, '\0', room) != NULL;
}

static void check(const struct devspec *s)
{
    const struct net_cfg *n = &s->net;
    FUZZ_MUST(ends(n->name, sizeof n->name) && ends(n->cc, sizeof n->cc));
    FUZZ_MUST(ends(n->capture, sizeof n->capture));
    FUZZ_MUST(n->kind == NET_SOCK || n->name[0] != '\0');
    FUZZ_MUST((n->kind != NET_TAP && n->kind != NET_PCAP) || strlen(n->name) < IFNAMSIZ);
    FUZZ_MUST(n->kind == NET_SOCK || n->ip.s_addr != 0 || !IN6_IS_ADDR_UNSPECIFIED(&n->ip6));
    FUZZ_MUST(n->prefix <= 30 && (n->prefix6 == 0 || (n->prefix6 >= 64 && n->prefix6 <= 128)));
    FUZZ_MUST((n->mac[0] & 1) == 0 && n->vlan <= 4094);
    FUZZ_MUST(n->mtu == 0 || (n->mtu >= 576 && n->mtu <= 65535));
    FUZZ_MUST(s->rev == 1 || s->rev == 2);
    FUZZ_MUST(s->ird <= DEVSPEC_DEPTH_MAX && s->ord <= DEVSPEC_DEPTH_MAX);
    FUZZ_MUST(s->spin_us <= 10000 && s->rnr_s <= 3600 && s->setup_s >= 1 && s->setup_s <= 3600);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct devspec one, two;
    char *text = malloc(size + 1);
    FUZZ_MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    memset(&one, 0, sizeof one);
    memset(&two, 0xff, sizeof two);
    int err = devspec_parse(text, &one);
    FUZZ_MUST(devspec_parse(text, &two) == err);
    if (err == 0) {
        check(&one);
        FUZZ_MUST(strcmp(one.net.name, two.net.name) == 0 && one.net.kind == two.net.kind);
        FUZZ_MUST(memcmp(&one.net.ip6, &two.net.ip6, sizeof one.net.ip6) == 0);
        FUZZ_MUST(one.net.ip.s_addr == two.net.ip.s_addr && one.net.mtu == two.net.mtu);
    } else {
        FUZZ_MUST(err == -EINVAL && strncmp(uiw_error(), "device string: ", 15) == 0);
    }
    free(text);
    return 0;
}
