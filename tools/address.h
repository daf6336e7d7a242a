/* SPDX-License-Identifier: MIT */
/* Internet addresses as the tools take and print them. */
#ifndef UIW_TOOLS_ADDRESS_H
#define UIW_TOOLS_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* "198.18.0.2", "fd00::2", "fe80::2%uiw0" */
bool address_parse(const char *text, uint16_t port, struct sockaddr_storage *out);

/* The same with a port behind it: "198.18.0.2:7174", "[fd00::2]:7174", "[fe80::2%uiw0]:7174". Without one,
 * with or without brackets, it is port. */
bool address_parse_endpoint(const char *text, uint16_t port, struct sockaddr_storage *out);

/* A port as text, 1..65535. */
bool address_parse_port(const char *text, uint16_t *out);

/* Host order. */
uint16_t address_port(const struct sockaddr_storage *addr);
void address_set_port(struct sockaddr_storage *addr, uint16_t port);
/* ::ffff:a.b.c.d becomes a.b.c.d. */
void address_unmap(struct sockaddr_storage *addr);

/* Octets of the sockaddr in it. */
socklen_t address_len(const struct sockaddr_storage *addr);

/* "A.B.C.D:PORT" or "[IPV6]:PORT"; text holds ADDRESS_TEXT octets, which is returned. */
enum { ADDRESS_TEXT = 56 };
const char *address_text(const struct sockaddr_storage *addr, char *text);

#endif
