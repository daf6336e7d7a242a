/* SPDX-License-Identifier: MIT */
/* See address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_TEXT = INET6_ADDRSTRLEN + IF_NAMESIZE };

/* A zone behind the address is taken for kernel TCP's sake; on other devices the device is the link. */
static bool parse6(const char *text, uint16_t port, struct sockaddr_in6 *out)
{
    char host[HOST_TEXT];
    const char *zone = strchr(text, '%');
    size_t n = zone != NULL ? (size_t)(zone - text) : strlen(text);

    if (n >= sizeof host)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    *out = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (zone != NULL) {
        out->sin6_scope_id = if_nametoindex(zone + 1);
        if (out->sin6_scope_id == 0)
            return false;
    }
    return inet_pton(AF_INET6, host, &out->sin6_addr) == 1;
}

bool address_parse(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6;

    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(out, &in, sizeof in);
        return true;
    }
    if (!parse6(text, port, &in6))
        return false;
    memcpy(out, &in6, sizeof in6);
    return true;
}

bool address_parse_port(const char *text, uint16_t *out)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    *out = (uint16_t)n;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && n > 0 && n <= UINT16_MAX;
}

bool address_parse_endpoint(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    char host[HOST_TEXT];
    bool six = text[0] == '[';
    const char *end = six ? strchr(text, ']') : strchr(text, ':');
    const char *rest = end != NULL && six ? end + 1 : end;

    if (!six && (end == NULL || strchr(end + 1, ':') != NULL))
        return address_parse(text, port, out); /* no port, or IPv6 without brackets */
    if (rest == NULL || (*rest != '\0' && (*rest != ':' || !address_parse_port(rest + 1, &port))))
        return false;
    text += six;
    if ((size_t)(end - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(end - text));
    host[end - text] = '\0';
    return address_parse(host, port, out) && six == (out->ss_family == AF_INET6);
}

uint16_t address_port(const struct sockaddr_storage *addr)
{
    struct sockaddr_in in; /* the port lies at the same place in both */

    memcpy(&in, addr, sizeof in);
    return ntohs(in.sin_port);
}

void address_set_port(struct sockaddr_storage *addr, uint16_t port)
{
    struct sockaddr_in in;

    memcpy(&in, addr, sizeof in);
    in.sin_port = htons(port);
    memcpy(addr, &in, sizeof in);
}

void address_unmap(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 in6;

    memcpy(&in6, addr, sizeof in6);
    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
        return;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6.sin6_port};
    memcpy(&in.sin_addr, in6.sin6_addr.s6_addr + 12, sizeof in.sin_addr);
    memset(addr, 0, sizeof *addr);
    memcpy(addr, &in, sizeof in);
}

socklen_t address_len(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

const char *address_text(const struct sockaddr_storage *addr, char *text)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    char host[INET6_ADDRSTRLEN] = "?";

    memcpy(&in, addr, sizeof in);
    memcpy(&in6, addr, sizeof in6);
    if (addr->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT, "[%s]:%u", host, (unsigned)ntohs(in6.sin6_port));
        return text;
    }
    if (in.sin_family == AF_INET)
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
    snprintf(text, ADDRESS_TEXT, "%s:%u", host, (unsigned)ntohs(in.sin_port));
    return text;
}
