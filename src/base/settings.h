/* SPDX-License-Identifier: Apache-2.0 */
/* Every environment variable of ours, declared once: name, kind, default, help.  The environment is
 * read at the first use; `tessera info --settings` and the manual are made from this table. */
#ifndef TS_BASE_SETTINGS_H
#define TS_BASE_SETTINGS_H

#include <tessera/status.h>

/* X(id, variable, kind, default, help).  Kinds: INT, SIZE (bytes; KiB, MiB, GiB, K, M, G accepted),
 * BOOL (y/yes/1/t/true, n/no/0/f/false, any case), STRING, MS (milliseconds), WORD (one of a few, any
 * case).  Whoever adds a STRING says in settings_test.c what becomes of one that is of no use. */
#define TS_SETTINGS(X)                                                                             \
    X(ABORT_ON_ERROR, "TESSERA_ABORT_ON_ERROR", BOOL, "0",                                         \
      "Abort where the first error is created, for a backtrace.")                                  \
    X(LOGS, "TESSERA_LOGS", STRING, "",                                                            \
      "Log levels by component: +ddp is debug, ddp is info, -ddp is errors only; all names all.")  \
    X(DEBUG, "TESSERA_DEBUG", WORD, "",                                                            \
      "Debug level: OFF, INFO, DETAIL or COMPARE; TORCH_DISTRIBUTED_DEBUG is read too.")           \
    X(DETECT_ANOMALY, "TESSERA_DETECT_ANOMALY", BOOL, "0",                                         \
      "Backward ends at the first gradient that is not finite and says where its operation ran.")  \
    X(RECORDER_ENTRIES, "TESSERA_RECORDER_ENTRIES", INT, "",                                       \
      "Operations that the flight recorder of a rank keeps; 0: off. Empty: "                       \
      "TORCH_FR_BUFFER_SIZE, else 2000.")                                                          \
    X(DUMP_FILE, "TESSERA_DUMP_FILE", STRING, "",                                                  \
      "Prefix of the files with dumps of the flight recorder, to which the rank is added; with "   \
      "it, ranks dump when an operation fails. TORCH_FR_DUMP_TEMP_FILE is read too.")              \
    X(DUMP_SIGNAL, "TESSERA_DUMP_SIGNAL", STRING, "",                                              \
      "Signal that has ranks dump their flight recorders, such as USR1; empty: none.")             \
    X(DUMP_PIPE, "TESSERA_DUMP_PIPE", STRING, "",                                                  \
      "Prefix of named pipes (PREFIX, rank, .pipe); writing to one has the rank dump.")            \
    X(NAN_CHECK, "TESSERA_NAN_CHECK", BOOL, "0",                                                   \
      "Refuse inputs of collectives and sends that hold NaN; TORCH_NCCL_NAN_CHECK is read too.")   \
    X(ASYNC_ERROR_HANDLING, "TESSERA_ASYNC_ERROR_HANDLING", INT, "0",                              \
      "When an asynchronous operation fails: 0 only tell who waits for it; 1 abort the group and " \
      "end the process; 2 abort the group; 3 end the process.")                                    \
    X(NUM_THREADS, "TESSERA_NUM_THREADS", INT, "0",                                                \
      "Threads of one operation; 0: OMP_NUM_THREADS, else cores / ranks of this host.")            \
    X(ISA, "TESSERA_ISA", WORD, "",                                                                \
      "Kernels to use: ref (plain C), avx2 or avx512; empty: the best one that the processor "     \
      "has.")                                                                                      \
    X(BLAS, "TESSERA_BLAS", STRING, "",                                                            \
      "CBLAS library for matrix products; empty: the one that the build found.")                   \
    X(SHARED_HEAP, "TESSERA_SHARED_HEAP", SIZE, "64GiB",                                           \
      "Address space reserved for the shared heap of a rank; memory is used only when touched.")   \
    X(SHARED_MEMORY, "TESSERA_SHARED_MEMORY", BOOL, "1",                                           \
      "Use shared memory between ranks of one host; 0: sockets only.")                             \
    X(TIMEOUT, "TESSERA_TIMEOUT", MS, "1800000",                                                   \
      "Default time limit of an operation on a group, in milliseconds.")                           \
    X(STORE_TIMEOUT, "TESSERA_STORE_TIMEOUT", MS, "300000",                                        \
      "Default time limit of a store operation and of connecting to it, in milliseconds.")         \
    X(HOST_ID, "TESSERA_HOST_ID", STRING, "",                                                      \
      "Identity of this host; ranks with equal identities share memory. Empty: found out.")        \
    X(HOST_CORES, "TESSERA_HOST_CORES", INT, "0",                                                  \
      "Cores that the ranks of this host share when each is pinned to its own; set by tessera "    \
      "run.")                                                                                      \
    X(SOCKET_IFNAME, "TESSERA_SOCKET_IFNAME", STRING, "",                                          \
      "Interfaces for links between hosts: eth0,ib (prefixes), =eth0 (exact), ^docker,lo (none "   \
      "of "                                                                                        \
      "these); GLOO_SOCKET_IFNAME is read too. Empty: the address of the host's name.")            \
    X(SOCKET_FAMILY, "TESSERA_SOCKET_FAMILY", WORD, "",                                            \
      "Addresses for links between hosts: ipv4 or ipv6; empty: IPv4 where there is one.")          \
    X(LISTEN_PORTS, "TESSERA_LISTEN_PORTS", STRING, "",                                            \
      "Ports on which ranks may listen for ranks of other hosts, 5000-5099; empty: any free one.") \
    X(PUBLISH_ADDRESS, "TESSERA_PUBLISH_ADDRESS", STRING, "",                                      \
      "Where ranks of other hosts reach this one, if that is not where it listens: ADDRESS or "    \
      "ADDRESS:PORT (of the first of TESSERA_LISTEN_PORTS), one per interface.")                   \
    X(SOCKETS_PER_PEER, "TESSERA_SOCKETS_PER_PEER", INT, "0",                                      \
      "Connections between two ranks on different hosts, over which long messages are spread, up " \
      "to 8; 0: one per interface.")                                                               \
    X(LAZY_CONNECT, "TESSERA_LAZY_CONNECT", BOOL, "",                                              \
      "Connect ranks on different hosts when they first talk (yes) or when the group is made "     \
      "(no); TORCH_GLOO_LAZY_INIT is read too. Empty: yes from 64 ranks on.")                      \
    X(READ_PEERS, "TESSERA_READ_PEERS", BOOL, "1",                                                 \
      "Read long tensors outside the shared heap out of the memory of their process, where the "   \
      "kernel permits it; 0: they pass through the staging ring.")                                 \
    X(STAGING, "TESSERA_STAGING", SIZE, "4MiB",                                                    \
      "Bytes of the ring through which tensors outside the shared heap pass.")                     \
    X(OBJECT_LIMIT, "TESSERA_OBJECT_LIMIT", SIZE, "16GiB",                                         \
      "Largest number of bytes of objects that one call may bring to a rank.")                     \
    X(SPIN_US, "TESSERA_SPIN_US", INT, "-1",                                                       \
      "Microseconds a wait spins before it yields; -1: spin only when ranks fit the cores.")       \
    X(PLUGIN_PATH, "TESSERA_PLUGIN_PATH", STRING, "",                                              \
      "Folders with plug-ins (libtessera_mpi_openmpi.so), separated by colons; those beside the "  \
      "library are looked at too.")                                                                \
    X(MPI, "TESSERA_MPI", STRING, "",                                                              \
      "MPI of the backend mpi: openmpi, mpich, or another that libtessera_mpi_NAME.so is for; "    \
      "empty: the program's or the launcher's.")                                                   \
    X(MPI_LIMIT, "TESSERA_MPI_LIMIT", SIZE, "256MiB",                                              \
      "Bytes of one call to MPI; longer operations of the backend mpi are cut.")                   \
    X(ALGORITHM, "TESSERA_ALGORITHM", STRING, "",                                                  \
      "Algorithms of collectives, for tests and tuning: all_reduce:ring,broadcast:chain:256KiB "   \
      "(operation:algorithm:segment); empty: a table decides.")                                    \
    X(SECRET, "TESSERA_SECRET", STRING, "",                                                        \
      "Shared secret of the job, at least 16 characters: only who knows it may use the store and " \
      "the links; set by tessera run --secure. Empty: none.")                                      \
    X(SECRET_FILE, "TESSERA_SECRET_FILE", STRING, "", "A file that holds the shared secret.")      \
    X(TLS, "TESSERA_TLS", BOOL, "0",                                                               \
      "Encrypt the store's connections and those between hosts (TLS 1.3, keyed by the secret).")   \
    X(TIMING, "TESSERA_TIMING", BOOL, "0",                                                         \
      "Print a table of the phases of the start, from the launcher to the first collective.")      \
    X(RUN_ID, "TESSERA_RUN_ID", STRING, "",                                                        \
      "Name of this run, part of every handshake; set by tessera run.")

typedef enum ts_setting {
#define X(id, variable, kind, def, help) TS_SETTING_##id,
    TS_SETTINGS(X)
#undef X
        TS_NUM_SETTINGS
} ts_setting;

typedef struct ts_setting_info {
    const char *variable, *kind, *def, *help;
} ts_setting_info;

/* Description by number, NULL past the end.  For `tessera info` and the manual. */
const ts_setting_info *ts_setting_describe(int index);

/* Text in force: the environment's, else the default. */
const char *ts_setting_string(ts_setting setting);

/* TS_EINVAL naming the first one in the environment that is malformed or out of its range, and what it
 * can be (of kind STRING: who uses it says so).  A group's init begins with it. */
ts_status ts_settings_check(void);
/* Warns, once per process, of variables named TESSERA_... that are no settings. */
void ts_settings_check_names(void);
/* Set for processes whose parent has done so. */
#define TS_NAMES_CHECKED "TESSERA_NAMES_CHECKED"

/* Values of the other kinds.  A text that is malformed or out of range is reported once as a warning naming the
 * variable, and the default is used. */
int64_t ts_setting_int(ts_setting setting); /* INT, MS and SIZE */
bool ts_setting_bool(ts_setting setting);

/* Parsers, for command lines too.  TS_EINVAL with the text on malformed input. */
ts_status ts_parse_int(int64_t *out, const char *text);
ts_status ts_parse_size(int64_t *out, const char *text);
ts_status ts_parse_bool(bool *out, const char *text);

/* The first of names that is set and not empty, a list that ends with NULL, or else of deprecated
 * ones (NULL: none), whose use is warned of once each.  NULL: none is set.  *which: its name. */
const char *ts_env_first(const char **which, const char *const *names,
                         const char *const *deprecated);
/* The same as a bool.  Malformed: TS_EINVAL naming the variable.  *found: one is set. */
ts_status ts_env_bool(bool *out, bool *found, const char *const *names,
                      const char *const *deprecated);

#endif
