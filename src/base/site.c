/* SPDX-License-Identifier: Apache-2.0 */
/* Lines come from debugging information through elfutils' libdw, which is loaded only when an
 * address is asked for; without it, or without that information, symbols must do. */
#include "base/site.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#if defined(__has_include)
#if __has_include(<elfutils/libdwfl.h>)
#include <elfutils/libdwfl.h>
#define HAVE_DWFL 1
#endif
#endif

#ifdef HAVE_DWFL

#define FUNCTIONS(X)                                                                               \
    X(dwfl_begin)                                                                                  \
    X(dwfl_end)                                                                                    \
    X(dwfl_linux_proc_report)                                                                      \
    X(dwfl_linux_proc_find_elf)                                                                    \
    X(dwfl_report_end)                                                                             \
    X(dwfl_addrmodule)                                                                             \
    X(dwfl_module_getsrc)                                                                          \
    X(dwfl_module_addrname)                                                                        \
    X(dwfl_module_info)                                                                            \
    X(dwfl_lineinfo)

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
    int there;
} dw;

static void load(void)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    dw.there = 1;
#define X(name)                                                                                    \
    *(void **)(void *)&dw.name = dlsym(library, #name);                                            \
    if (!dw.name) dw.there = 0;
    FUNCTIONS(X)
#undef X
}

/* Only what the files themselves hold: nothing is asked of servers. */
static int no_other_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                         const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc;
    (void)found;
    return -1;
}

struct ts_sites {
    Dwfl *dwfl;
    Dwfl_Callbacks callbacks;
};

ts_sites *ts_sites_open(int pid)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!dw.there) return NULL;
    ts_sites *s = ts_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->callbacks.find_elf = dw.dwfl_linux_proc_find_elf;
    s->callbacks.find_debuginfo = no_other_file;
    s->dwfl = dw.dwfl_begin(&s->callbacks);
    if (s->dwfl && dw.dwfl_linux_proc_report(s->dwfl, pid ? pid : getpid()) == 0 &&
        dw.dwfl_report_end(s->dwfl, NULL, NULL) == 0)
        return s;
    ts_sites_close(s);
    return NULL;
}

void ts_sites_close(ts_sites *s)
{
    if (!s) return;
    if (s->dwfl) dw.dwfl_end(s->dwfl);
    free(s);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int find_line(ts_site *out, ts_sites *s, uint64_t address)
{
    int line = 0;
    Dwfl_Module *module = dw.dwfl_addrmodule(s->dwfl, address - 1);
    if (!module) return 0;
    const char *name = dw.dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    const char *function = dw.dwfl_module_addrname(module, address - 1);
    Dwfl_Line *at = dw.dwfl_module_getsrc(module, address - 1);
    const char *file = at ? dw.dwfl_lineinfo(at, NULL, &line, NULL, NULL, NULL) : NULL;
    if (!file) line = 0;
    snprintf(out->file, sizeof out->file, "%s", last_part(file ? file : name ? name : "?"));
    snprintf(out->function, sizeof out->function, "%s", function ? function : "");
    out->line = line;
    return 1;
}

#else

ts_sites *ts_sites_open(int pid)
{
    (void)pid;
    return NULL;
}
void ts_sites_close(ts_sites *s) { (void)s; }
static int find_line(ts_site *out, ts_sites *s, uint64_t address)
{
    (void)out, (void)s, (void)address;
    return 0;
}
static const char *last_part(const char *path) { return path; }

#endif

static int find_symbol(ts_site *out, uint64_t address)
{
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)(address - 1), &info) || !info.dli_fname) return 0;
    snprintf(out->file, sizeof out->file, "%s", last_part(info.dli_fname));
    if (info.dli_sname)
        snprintf(out->function, sizeof out->function, "%s", info.dli_sname);
    else
        snprintf(out->function, sizeof out->function, "+0x%llx",
                 (unsigned long long)(address - (uint64_t)(uintptr_t)info.dli_fbase));
    return 1;
}

int ts_site_find(ts_site *out, ts_sites *s, uint64_t address)
{
    *out = (ts_site){.line = 0};
    if (address == 0) return 0;
    return s ? find_line(out, s, address) : find_symbol(out, address);
}

char *ts_site_format(char *text, size_t size, ts_sites *s, uint64_t address)
{
    ts_site site;
    text[0] = '\0';
    if (!ts_site_find(&site, s, address)) return text;
    if (site.line)
        snprintf(text, size, "%s:%d%s%s", site.file, site.line, *site.function ? " in " : "",
                 site.function);
    else
        snprintf(text, size, "%s of %s", *site.function ? site.function : "code", site.file);
    return text;
}

char *ts_site_text(char *text, size_t size, const void *address)
{
    ts_sites *sites = ts_sites_open(0);
    ts_site_format(text, size, sites, (uint64_t)(uintptr_t)address);
    ts_sites_close(sites);
    return text;
}
