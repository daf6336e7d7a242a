/* SPDX-License-Identifier: MIT */
/* Device strings: every fault is named, and opening a device harms nothing that was there. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim.h"

static void test_bad_strings(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *named;
    } all[] = {
        {"", "UIW_DEVICE"},
        {"tap", "KIND:NAME"},
        {"tap:,ip=198.18.0.1", "tap"},
        {"eth:x,ip=198.18.0.1", "eth"},
        {"pair:x", "ip= is missing"},
        {"pair:x,ip=1.2.3", "ip=1.2.3"},
        {"pair:x,ip=198.18.0.1/31", "/31"},
        {"pair:x,ip=127.0.0.1", "127.0.0.1"},
        {"pair:x,ip=198.18.0.255/24", "198.18.0.255"},
        {"pair:x,ip=198.18.0.0/24", "198.18.0.0"},
        {"pair:x,ip=224.0.0.1", "224.0.0.1"},
        {"pair:x,ip=198.18.0.1,gw=10.0.0.1", "gw=10.0.0.1"},
        {"pair:x,ip=198.18.0.1,ip=198.18.0.2", "ip is given twice"},
        {"pair:x,ip=198.18.0.1,", "comma"},
        {"pair:x,ip=198.18.0.1,crc=maybe", "crc=maybe"},
        {"pair:x,ip=198.18.0.1,crc", "crc"},
        {"pair:x,ip=198.18.0.1,ird=129", "ird=129"},
        {"pair:x,ip=198.18.0.1,rev=3", "rev=3"},
        {"pair:x,ip=198.18.0.1,mac=01:00:00:00:00:01", "mac"},
        {"pair:x,ip=198.18.0.1,mtu=99", "mtu=99"},
        {"tap:x,ip=198.18.0.1,mtu=1500", "mtu"},
        {"pair:x,ip=198.18.0.1,color=red", "color"},
        {"shm:/,ip=198.18.0.1", "expected NAME"},
        {"shm:a/b,ip=198.18.0.1", "expected NAME"},
    };
    struct uiw_device *dev;
    unsetenv("UIW_DEVICE");
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        assert_int_equal(uiw_device_open(all[i].spec, &dev), -EINVAL);
        if (strstr(uiw_error(), all[i].named) == NULL) {
            fail_msg("%s: \"%s\" does not name %s", all[i].spec, uiw_error(), all[i].named);
        }
    }
}

/* A mistyped shm path must not cost the file that is there. */
static void test_shm_leaves_files_alone(void **state)
{
    (void)state;
    char path[64], lock[80], spec[120];
    struct uiw_device *dev;
    struct stat st;
    snprintf(path, sizeof path, "/tmp/uiw-test-%d", (int)getpid());
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(spec, sizeof spec, "shm:%s,ip=198.18.0.1", path);
    const char *files[] = {path, lock};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int fd = open(files[i], O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
        assert_true(uiw_device_open(spec, &dev) < 0);
        assert_non_null(strstr(uiw_error(), files[i]));
        assert_int_equal(stat(files[i], &st), 0);
        assert_int_equal(st.st_size, 1);
        unlink(files[i]);
    }
    assert_int_equal(uiw_device_open(spec, &dev), 0);
    assert_int_equal(uiw_device_close(dev), 0);
    unlink(path);
    unlink(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_shm_leaves_files_alone),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
