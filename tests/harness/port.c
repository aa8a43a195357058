/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "test.h"

int ts_test_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return -1;
    if (bind(fd, (struct sockaddr *)&any, length) != 0) return -1;
    return getsockname(fd, (struct sockaddr *)&any, &length) == 0 ? ntohs(any.sin_port) : -1;
}
