/* SPDX-License-Identifier: Apache-2.0 */
#include "net/interface.h"

#include <string.h>
#include <sys/socket.h>

#include "test.h"

static const ts_interface there[] = {
    {"lo", "127.0.0.1", true},    {"eth0", "10.0.0.1", false},      {"eth1", "10.0.1.1", false},
    {"eth10", "10.0.2.1", false}, {"docker0", "172.17.0.1", false}, {"ib0", "fe80::7%ib0", false}};
enum { THERE = sizeof there / sizeof *there };

static const char *chosen(const char *list, bool exact, int count)
{
    static char text[200];
    ts_interface out[TS_INTERFACES_MAX];
    int n = 0;
    text[0] = '\0';
    if (ts_interfaces_select(out, &n, "THE_VARIABLE", list, exact, there, count) != TS_OK)
        return ts_error_last();
    for (int i = 0; i < n; i++) {
        if (i) strcat(text, " ");
        strcat(text, out[i].name);
    }
    return text;
}

TS_TEST(interfaces_that_a_list_includes)
{
    TS_EXPECT_STR(chosen("eth0", false, THERE), "eth0");
    TS_EXPECT_STR(chosen("eth", false, THERE), "eth0 eth1 eth10");
    TS_EXPECT_STR(chosen("eth1", false, THERE), "eth1"); /* a whole name goes before a prefix */
    TS_EXPECT_STR(chosen("=eth1", false, THERE), "eth1");
    TS_EXPECT_STR(chosen("ib, eth0", false, THERE), "ib0 eth0");
    TS_EXPECT_STR(chosen("eth0,eth,eth0", false, THERE), "eth0 eth1 eth10");
    TS_EXPECT_STR(chosen("eth10,ib0", true, THERE), "eth10 ib0");
    TS_EXPECT_STR(chosen("lo", false, THERE), "lo");
}

TS_TEST(interfaces_that_a_list_excludes)
{
    TS_EXPECT_STR(chosen("^docker", false, THERE), "eth0");
    TS_EXPECT_STR(chosen("^eth,docker0", false, THERE), "ib0");
    TS_EXPECT_STR(chosen("^=eth0", false, THERE), "eth1");
    TS_EXPECT_STR(chosen("^=eth", false, THERE), "eth0");
    TS_EXPECT_STR(chosen("^eth1", true, THERE), "eth0");
    TS_EXPECT_STR(chosen("^eth,docker,ib", false, THERE), "lo");
    TS_EXPECT_STR(chosen("^", false, THERE), "eth0");
}

TS_TEST(interfaces_that_do_not_exist)
{
    ts_interface out[TS_INTERFACES_MAX];
    int n;
    TS_FAIL(ts_interfaces_select(out, &n, "THE_VARIABLE", "eth0,nosuch0", false, there, 2),
            TS_ENETWORK, "THE_VARIABLE: network interface 'nosuch0' does not exist");
    TS_EXPECT(strstr(ts_error_last(), "lo (127.0.0.1), eth0 (10.0.0.1)"));
    TS_FAIL(ts_interfaces_select(out, &n, "V", "eth", true, there, THERE), TS_ENETWORK, "'eth'");
    TS_FAIL(ts_interfaces_select(out, &n, "V", "=eth", false, there, THERE), TS_ENETWORK, "'eth'");
    TS_FAIL(ts_interfaces_select(out, &n, "V", "^lo,eth", false, there, 2), TS_ENETWORK, "none");
    TS_FAIL(ts_interfaces_select(out, &n, "V", ",", false, there, 2), TS_ENETWORK, "is no name");
    TS_FAIL(ts_interfaces_select(out, &n, "V", "lo", false, NULL, 0), TS_ENETWORK, "none");
}

TS_TEST(interfaces_of_this_host)
{
    ts_interface list[TS_INTERFACES_SEEN];
    int n = 0, loopback = 0;
    TS_PASS(ts_interfaces_list(list, &n, AF_INET));
    for (int i = 0; i < n; i++) {
        TS_EXPECT(!strchr(list[i].address, ':'));
        if (!list[i].loopback) continue;
        TS_EXPECT(ts_address_is_loopback(list[i].address));
        loopback++;
    }
    TS_EXPECT(loopback >= 1);
    TS_PASS(ts_interfaces_list(list, &n, AF_INET6));
    for (int i = 0; i < n; i++) TS_EXPECT(strchr(list[i].address, ':'));
}

TS_TEST(addresses_of_one_link_are_scoped_where_they_are_used)
{
    char out[TS_ADDRESS_TEXT];
    ts_address_through(out, "fe80::1%eth7", "ib0");
    TS_EXPECT_STR(out, "fe80::1%ib0");
    ts_address_through(out, "fe80::1%eth7", "");
    TS_EXPECT_STR(out, "fe80::1%eth7");
    ts_address_through(out, "2001:db8::1", "ib0");
    TS_EXPECT_STR(out, "2001:db8::1");
    ts_address_through(out, "10.0.0.1", "ib0");
    TS_EXPECT_STR(out, "10.0.0.1");
    TS_EXPECT(ts_address_is_loopback("127.0.1.1") && ts_address_is_loopback("::1"));
    TS_EXPECT(!ts_address_is_loopback("10.0.0.1") && !ts_address_is_loopback("fe80::1%lo"));
}
