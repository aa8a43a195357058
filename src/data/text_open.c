/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and mapping the files of a text. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "data/text_impl.h"
#include "formats/little.h"

/* Smaller files are read: a system limits the number of maps (vm.max_map_count), and folders of
 * many small files are common. */
enum { SMALLEST_MAP = 64 * 1024 };

/* False if the file or folder was met before. */
static ts_status note(ts_text *text, const struct stat *info, bool *is_new)
{
    char key[64];
    snprintf(key, sizeof key, "%llx:%llx", (unsigned long long)info->st_dev,
             (unsigned long long)info->st_ino);
    *is_new = ts_map_get(&text->seen, key) == NULL;
    if (*is_new && !ts_map_set(&text->seen, key, text))
        return ts_fail_memory(sizeof key, "the list of a text's files");
    return TS_OK;
}

static ts_status read_bytes(unsigned char *to, size_t size, int fd, const char *path)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = read(fd, to + got, size - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ts_fail(TS_EIO, "text: cannot read '%s': %s", path, strerror(errno));
        if (n == 0) return ts_fail(TS_EIO, "text: '%s' became shorter while it was read", path);
        got += (size_t)n;
    }
    return TS_OK;
}

static ts_status load_small(ts_text_file *file, int fd, const char *path)
{
    file->block = ts_calloc(file->block_bytes, 1);
    if (!file->block) return ts_fail_memory(file->block_bytes, path);
    return read_bytes(file->block, file->block_bytes, fd, path);
}

static ts_status load(ts_text_file *file, int fd, const char *path)
{
    if (file->block_bytes < SMALLEST_MAP) return load_small(file, fd, path);
    void *data = mmap(NULL, file->block_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return ts_fail(TS_EIO, "text: cannot map '%s' (%zu bytes): %s", path, file->block_bytes,
                       strerror(errno));
    file->block = data;
    file->mapped = true;
    return TS_OK;
}

/* llm.c's token files begin with 256 numbers, of which the first is this. */
static size_t head_bytes(const ts_text_file *file, int width)
{
    enum { HEAD = 256 * 4, MAGIC = 20240520 };
    bool has = width > 1 && file->block_bytes >= HEAD && ts_little32(file->block) == MAGIC;
    return has ? HEAD : 0;
}

static ts_status find_tokens(ts_text_file *file, const ts_text *text, const char *path)
{
    size_t head = head_bytes(file, text->width), bytes = file->block_bytes - head;
    if (bytes % (size_t)text->width != 0)
        return ts_fail(TS_EFORMAT, "text: '%s' has %zu bytes, no whole number of tokens of %d",
                       path, bytes, text->width);
    file->data = (const unsigned char *)file->block + head;
    file->size = (int64_t)(bytes / (size_t)text->width);
    file->held = (int64_t)((double)file->size * text->holdout);
    return TS_OK;
}

static ts_text_file *new_file(ts_text *text)
{
    if (text->count == text->capacity) {
        int64_t capacity = text->capacity ? 2 * text->capacity : 16;
        void *grown = ts_grow(text->file, (size_t)capacity, sizeof *text->file);
        if (!grown) return NULL;
        text->file = grown;
        text->capacity = capacity;
    }
    text->file[text->count] = (ts_text_file){0};
    return &text->file[text->count];
}

static ts_status add_open_file(ts_text *text, int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return ts_fail(TS_EIO, "text: cannot look at '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size == 0) return TS_OK;
    ts_text_file *file = new_file(text);
    if (!file) return ts_fail_memory(sizeof *file, "the list of a text's files");
    file->block_bytes = (size_t)info.st_size;
    text->count++; /* from here on the text frees it */
    TS_TRY(load(file, fd, path));
    TS_TRY(find_tokens(file, text, path));
    file->start[0] = text->tokens[0];
    file->start[1] = text->tokens[1];
    text->tokens[0] += file->size - file->held;
    text->tokens[1] += file->held;
    return TS_OK;
}

static ts_status add_file(ts_text *text, const char *path)
{
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return ts_fail(TS_EIO, "text: cannot open '%s': %s", path, strerror(errno));
    ts_status status = add_open_file(text, fd, path);
    close(fd);
    return status;
}

/* ---- folders --------------------------------------------------------------------------------- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static ts_status add_folder(ts_text *text, const char *path);

/* A link that leads nowhere is left out; anything else that cannot be looked at is an error. */
static ts_status add_entry(ts_text *text, const char *path)
{
    struct stat info;
    bool is_new;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT && errno != ELOOP)
            return ts_fail(TS_EIO, "text: cannot look at '%s': %s", path, strerror(errno));
        TS_LOG(TS_LOG_DATA, TS_LEVEL_WARNING, "text: '%s' leads nowhere and is left out", path);
        return TS_OK;
    }
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return TS_OK;
    TS_TRY(note(text, &info, &is_new));
    if (!is_new) return TS_OK;
    return S_ISDIR(info.st_mode) ? add_folder(text, path) : add_file(text, path);
}

static ts_status add_folder(ts_text *text, const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, not_dots, by_name);
    if (n < 0)
        return ts_fail(TS_EIO, "text: cannot list the folder '%s': %s", path, strerror(errno));
    ts_status status = TS_OK;
    for (int i = 0; i < n; i++) {
        if (status == TS_OK) {
            char *inside = ts_asprintf("%s/%s", path, entries[i]->d_name);
            status = inside ? add_entry(text, inside) : ts_fail_memory(strlen(path), "a path");
            free(inside);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

ts_status ts_text_add(ts_text *text, const char *path)
{
    struct stat info;
    bool is_new;
    if (!path || stat(path, &info) != 0)
        return ts_fail(TS_EIO, "text: cannot open '%s': %s", path ? path : "(null)",
                       path ? strerror(errno) : "no path");
    bool folder = S_ISDIR(info.st_mode);
    if (!folder && !S_ISREG(info.st_mode))
        return ts_fail(TS_EIO, "text: '%s' is neither a file nor a folder", path);
    if (!folder && info.st_size == 0) return ts_fail(TS_EIO, "text: '%s' is empty", path);
    TS_TRY(note(text, &info, &is_new));
    if (!is_new) return TS_OK;
    int64_t before = text->count;
    TS_TRY(folder ? add_folder(text, path) : add_file(text, path));
    if (folder && text->count == before)
        return ts_fail(TS_EIO, "text: the folder '%s' holds no file with bytes in it", path);
    return TS_OK;
}
