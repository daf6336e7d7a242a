/* SPDX-License-Identifier: MIT */
/* The device string: one grammar, one parser (uiw.h documents it). */
#ifndef UIW_API_DEVSPEC_H
#define UIW_API_DEVSPEC_H

#include "api/uiw.h"
#include "tcpip/net.h"

enum { DEVSPEC_DEPTH_MAX = 128, DEVSPEC_LEN_MAX = 255 };

struct devspec {
    struct net_cfg net;
    enum uiw_progress progress;
    bool crc, markers, ext;
    uint8_t rev;
    uint16_t ird, ord;
    uint32_t spin_us;
    uint32_t rnr_s, setup_s;
};

/* 0, or -EINVAL with uiw_error() naming the key and what was expected. */
int devspec_parse(const char *text, struct devspec *out);

#endif
