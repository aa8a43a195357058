/* SPDX-License-Identifier: Apache-2.0 */
/* Entries stand in insertion order in one array; buckets hold index + 1 with linear probing and are
 * built anew when the array grows. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"

/* Random, the same for all maps of the process: keys that come from elsewhere cannot be chosen so
 * that they collide.  Order does not depend on it. */
static uint64_t hash_seed(void)
{
    static _Atomic uint64_t seed;
    uint64_t value = atomic_load_explicit(&seed, memory_order_relaxed), none = 0;
    if (value) return value;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != (ssize_t)sizeof value) value = 0;
    atomic_compare_exchange_strong(&seed, &none, value | 1);
    return atomic_load(&seed);
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = 1469598103934665603u ^ hash_seed(); /* FNV-1a */
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h ^ (h >> 29);
}

static void insert_index(ts_map *map, int64_t index)
{
    uint64_t mask = (uint64_t)map->buckets - 1;
    uint64_t at = hash_text(map->entry[index].key) & mask;
    while (map->bucket[at]) at = (at + 1) & mask;
    map->bucket[at] = index + 1;
}

static void rebuild(ts_map *map)
{
    memset(map->bucket, 0, (size_t)map->buckets * sizeof *map->bucket);
    for (int64_t i = 0; i < map->count; i++) insert_index(map, i);
}

static int64_t find(const ts_map *map, const char *key)
{
    if (map->buckets == 0) return -1;
    uint64_t mask = (uint64_t)map->buckets - 1;
    for (uint64_t at = hash_text(key) & mask; map->bucket[at]; at = (at + 1) & mask)
        if (strcmp(map->entry[map->bucket[at] - 1].key, key) == 0) return map->bucket[at] - 1;
    return -1;
}

static int make_room(ts_map *map)
{
    if (map->count < map->capacity) return 1;
    int64_t capacity = map->capacity ? 2 * map->capacity : 8;
    void *entries = ts_grow(map->entry, (size_t)capacity, sizeof *map->entry);
    if (!entries) return 0;
    map->entry = entries;
    int64_t *buckets = ts_grow(map->bucket, (size_t)(2 * capacity), sizeof *buckets);
    if (!buckets) return 0;
    map->bucket = buckets;
    map->buckets = 2 * capacity;
    map->capacity = capacity;
    rebuild(map);
    return 1;
}

int ts_map_set(ts_map *map, const char *key, void *value)
{
    int64_t index = find(map, key);
    if (index >= 0) return map->entry[index].value = value, 1;
    if (!make_room(map)) return 0;
    char *copy = ts_strdup(key);
    if (!copy) return 0;
    map->entry[map->count].key = copy;
    map->entry[map->count].value = value;
    insert_index(map, map->count++);
    return 1;
}

void *ts_map_get(const ts_map *map, const char *key)
{
    int64_t index = find(map, key);
    return index >= 0 ? map->entry[index].value : NULL;
}

void ts_map_fini(ts_map *map)
{
    for (int64_t i = 0; i < map->count; i++) free(map->entry[i].key);
    free(map->entry);
    free(map->bucket);
    *map = (ts_map){0};
}
