/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers to ranks. */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include "base/thread.h"
#include "doctor.h"
#include "json.h"

typedef struct checks {
    bool json;
    int bad;
} checks;

typedef enum { GOOD, NOTE, BAD } verdict;

static void say(checks *c, verdict v, const char *name, const char *format, ...) TS_PRINTF(4, 5);
static void say(checks *c, verdict v, const char *name, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->bad += v == BAD;
    if (!c->json) {
        printf("%-5s %-16s %s\n", words[v], name, text);
        return;
    }
    ts_json json = ts_json_begin(stdout);
    ts_json_text(&json, "check", name);
    ts_json_text(&json, "verdict", words[v]);
    ts_json_text(&json, "text", text);
    ts_json_end(&json);
}

/* The word in brackets: "always [madvise] never". */
static void read_choice(char *out, size_t size, const char *path)
{
    char line[256] = "";
    FILE *from = fopen(path, "re");
    if (from && !fgets(line, sizeof line, from)) line[0] = '\0';
    if (from) fclose(from);
    line[strcspn(line, "\n")] = '\0';
    char *begin = strchr(line, '['), *end = begin ? strchr(begin, ']') : NULL;
    if (end) *end = '\0';
    snprintf(out, size, "%s", begin && end ? begin + 1 : line);
}

static void check_memory(checks *c)
{
    int fd = memfd_create("tessera-doctor", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 1 << 20) != 0)
        say(c, BAD, "shared memory", "memfd_create: %s; ranks of a host use sockets",
            strerror(errno));
    else
        say(c, GOOD, "shared memory", "memfd works; heaps need no room in /dev/shm");
    if (fd >= 0) close(fd);
    struct statvfs info;
    if (statvfs("/dev/shm", &info) == 0) {
        double mib = (double)info.f_bavail * (double)info.f_frsize / 1048576;
        say(c, mib < 64 ? NOTE : GOOD, "/dev/shm", "%.0f MiB free%s", mib,
            mib < 64 ? "; an MPI may need more" : "");
    }
    char huge[64];
    read_choice(huge, sizeof huge, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    say(c, GOOD, "huge pages", "transparent ones for shared memory: %s", *huge ? huge : "unknown");
    read_choice(huge, sizeof huge, "/proc/sys/kernel/yama/ptrace_scope");
    say(c, atoi(huge) > 0 ? NOTE : GOOD, "reading peers", "ptrace_scope %s%s", *huge ? huge : "0",
        atoi(huge) > 0 ? ": tensors outside the shared heap pass through the staging ring" : "");
}

static void check_limits(checks *c)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        say(c, limit.rlim_cur < 1024 ? BAD : GOOD, "open files",
            "limit %lld%s (ulimit -n); a rank needs about 4 per peer of its host",
            (long long)limit.rlim_cur,
            limit.rlim_cur < 1024 ? ", too low for more than few ranks" : "");
    if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        say(c, limit.rlim_cur < 512 ? BAD : GOOD, "processes", "limit %lld (ulimit -u)",
            (long long)limit.rlim_cur);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        say(c, BAD, "address space",
            "limited to %lld bytes (ulimit -v); heaps reserve 64 GiB: set TESSERA_SHARED_HEAP",
            (long long)limit.rlim_cur);
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    say(c, fd < 0 ? BAD : GOOD, "process watch",
        fd < 0 ? "no pidfd_open (kernel before 5.3): killed peers are found by their sockets only"
               : "pidfd works; a killed peer is noticed at once");
    if (fd >= 0) close(fd);
}

static void check_host_name(checks *c)
{
    char name[256] = "";
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    gethostname(name, sizeof name - 1);
    int error = getaddrinfo(name, NULL, &hints, &found);
    if (error) {
        say(c, NOTE, "host name",
            "'%s' does not resolve (%s); between hosts set TESSERA_SOCKET_IFNAME", name,
            gai_strerror(error));
        return;
    }
    char address[64] = "";
    getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0,
                NI_NUMERICHOST);
    bool local = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    say(c, local ? NOTE : GOOD, "host name", "'%s' is %s%s", name, address,
        local ? ", which other hosts cannot reach; between hosts set TESSERA_SOCKET_IFNAME" : "");
    freeaddrinfo(found);
}

int check_machine(bool json)
{
    checks c = {.json = json};
    int cores = ts_cores();
    say(&c, cores < 2 ? NOTE : GOOD, "cores", "%d for this process (affinity and cgroup)", cores);
    check_memory(&c);
    check_limits(&c);
    check_host_name(&c);
    say(&c, GOOD, "mpi", "%s", ts_is_mpi_available() ? "there is a plug-in and an MPI" : "none");
    return c.bad;
}
