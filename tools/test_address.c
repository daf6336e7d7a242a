/* SPDX-License-Identifier: MIT */
/* What the tools take for an address, and for one with a port. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "address.h"

enum { PORT = 7174 };

static int faults;

static const struct {
    const char *text, *address, *endpoint; /* as printed, or NULL: refused */
} cases[] = {
    {"198.18.0.2", "198.18.0.2:7174", "198.18.0.2:7174"},
    {"198.18.0.2:1", NULL, "198.18.0.2:1"},
    {"198.18.0.2:65535", NULL, "198.18.0.2:65535"},
    {"198.18.0.2:65536", NULL, NULL},
    {"198.18.0.2:0", NULL, NULL},
    {"198.18.0.2:", NULL, NULL},
    {"198.18.0.2:-1", NULL, NULL},
    {"198.18.0.2: 1", NULL, NULL},
    {"198.18.0.2:1x", NULL, NULL},
    {"198.18.0.2:18446744073709551617", NULL, NULL},
    {"198.18.0", NULL, NULL},
    {"[198.18.0.2]:1", NULL, NULL},
    {"fd00::2", "[fd00::2]:7174", "[fd00::2]:7174"},
    {"[fd00::2]", NULL, "[fd00::2]:7174"},
    {"[fd00::2]:1", NULL, "[fd00::2]:1"},
    {"[fd00::2]:", NULL, NULL},
    {"[fd00::2]1", NULL, NULL},
    {"[fd00::2", NULL, NULL},
    {"fd00::2]:1", NULL, NULL},
    {"[]:1", NULL, NULL},
    {"fd00::1:1", "[fd00::1:1]:7174", "[fd00::1:1]:7174"}, /* an address without a port */
    {"[fe80::2%lo]:1", NULL, "[fe80::2]:1"},
    {"fe80::2%lo", "[fe80::2]:7174", "[fe80::2]:7174"},
    {"fe80::2%no-such-if", NULL, NULL},
    {"fe80::2%", NULL, NULL},
    {"[1111:2222:3333:4444:5555:6666:7777:8888%lo-with-a-name-that-no-interface-has]", NULL, NULL},
    {"", NULL, NULL},
    {":", NULL, NULL},
    {"localhost", NULL, NULL},
};

static void compare(const char *text, const char *how, bool ok, const struct sockaddr_storage *got,
                    const char *want)
{
    char printed[ADDRESS_TEXT] = "";

    if (ok)
        address_text(got, printed);
    if (ok == (want != NULL) && (!ok || strcmp(printed, want) == 0))
        return;
    printf("%s as %s: %s, expected %s\n", text, how, ok ? printed : "refused",
           want != NULL ? want : "refused");
    faults++;
}

static void zone(void)
{
    struct sockaddr_storage a;
    struct sockaddr_in6 in6;
    bool ok = address_parse_endpoint("[fe80::2%lo]:1", PORT, &a);

    memcpy(&in6, &a, sizeof in6);
    if (!ok || in6.sin6_scope_id != if_nametoindex("lo")) {
        printf("the zone is lost\n");
        faults++;
    }
}

static void mapped(void)
{
    struct sockaddr_storage a;

    address_parse("::ffff:198.18.0.2", PORT, &a);
    address_unmap(&a);
    compare("::ffff:198.18.0.2", "unmapped", true, &a, "198.18.0.2:7174");
    address_parse("fd00::ffff:198.18.0.2", PORT, &a);
    address_set_port(&a, 2);
    address_unmap(&a);
    compare("fd00::ffff:198.18.0.2", "unmapped", true, &a, "[fd00::ffff:c612:2]:2");
    if (address_port(&a) != 2 || address_len(&a) != sizeof(struct sockaddr_in6)) {
        printf("port or length of an IPv6 address\n");
        faults++;
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sockaddr_storage got;
        bool ok = address_parse(cases[i].text, PORT, &got);

        compare(cases[i].text, "an address", ok, &got, cases[i].address);
        ok = address_parse_endpoint(cases[i].text, PORT, &got);
        compare(cases[i].text, "an endpoint", ok, &got, cases[i].endpoint);
    }
    zone();
    mapped();
    printf("address: %d fault(s)\n", faults);
    return faults > 0;
}
