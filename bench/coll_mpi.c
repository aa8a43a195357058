/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of an MPI library, measured and checked as `tessera bench coll` does it: a sample
 * is a run of calls back to back after a barrier, as many as take about 50 us (one if a call takes
 * longer), its time that of the slowest rank; rooted operations take the ranks in turn as root.
 *
 * usage: mpirun -n N coll_mpi NAME OPS SIZES SECONDS [HOSTS]     (lists with commas; bytes)
 * Prints the JSON lines of `tessera bench coll --json`, with NAME as backend. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, SAMPLE_US = 50, MAX_CALLS = 500, MIN_SAMPLES = 5, MAX_SAMPLES = 2000 };

typedef struct coll_case {
    const char *op;
    int rank, ranks, count, piece; /* floats: whole, per rank */
    float *in, *out;
} coll_case;

/* ---- operations ------------------------------------------------------------------------------ */

static void all_reduce(const coll_case *c, int root)
{
    (void)root;
    MPI_Allreduce(MPI_IN_PLACE, c->in, c->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Not in place: MPICH 4.0 crashes there. */
static void reduce(const coll_case *c, int root)
{
    MPI_Reduce(c->in, c->out, c->count, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
}

static void broadcast(const coll_case *c, int root)
{
    MPI_Bcast(c->in, c->count, MPI_FLOAT, root, MPI_COMM_WORLD);
}

static void all_gather(const coll_case *c, int root)
{
    (void)root;
    MPI_Allgather(c->in, c->piece, MPI_FLOAT, c->out, c->piece, MPI_FLOAT, MPI_COMM_WORLD);
}

static void gather(const coll_case *c, int root)
{
    MPI_Gather(c->in, c->piece, MPI_FLOAT, c->out, c->piece, MPI_FLOAT, root, MPI_COMM_WORLD);
}

static void scatter(const coll_case *c, int root)
{
    MPI_Scatter(c->in, c->piece, MPI_FLOAT, c->out, c->piece, MPI_FLOAT, root, MPI_COMM_WORLD);
}

static void reduce_scatter(const coll_case *c, int root)
{
    (void)root;
    MPI_Reduce_scatter_block(c->in, c->out, c->piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_to_all(const coll_case *c, int root)
{
    (void)root;
    MPI_Alltoall(c->in, c->piece, MPI_FLOAT, c->out, c->piece, MPI_FLOAT, MPI_COMM_WORLD);
}

static void barrier(const coll_case *c, int root)
{
    (void)c, (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

static int is_aside(const coll_case *c) { return c->rank != 0 && c->rank != c->ranks - 1; }

static void message(const coll_case *c, int sending)
{
    int peer = c->rank == 0 ? c->ranks - 1 : 0;
    if (sending)
        MPI_Send(c->in, c->count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(c->in, c->count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_recv(const coll_case *c, int root)
{
    (void)root;
    if (!is_aside(c)) message(c, c->rank == 0);
}

static void ping_pong(const coll_case *c, int root)
{
    (void)root;
    if (is_aside(c)) return;
    message(c, c->rank == 0);
    message(c, c->rank != 0);
}

/* ---- data ------------------------------------------------------------------------------------ */

static double pattern(long i, int rank) { return (double)(i % 3 + rank % 4); }

static double sum_at(const coll_case *c, int root, long i)
{
    double sum = 0;
    (void)root;
    for (int r = 0; r < c->ranks; r++) sum += pattern(i, r);
    return sum;
}

static double my_sum_at(const coll_case *c, int root, long i)
{
    return sum_at(c, root, (long)c->rank * c->piece + i);
}

static double root_at(const coll_case *c, int root, long i)
{
    (void)c;
    return pattern(i, root);
}

static double root_piece_at(const coll_case *c, int root, long i)
{
    return pattern((long)c->rank * c->piece + i, root);
}

static double pieces_at(const coll_case *c, int root, long i)
{
    (void)root;
    return pattern(i % c->piece, (int)(i / c->piece));
}

static double my_pieces_at(const coll_case *c, int root, long i)
{
    (void)root;
    return pattern((long)c->rank * c->piece + i % c->piece, (int)(i / c->piece));
}

enum { WHOLE, PIECE, PIECES, IN_PLACE };

typedef struct coll_op {
    const char *name;
    int in, out, at_root, rooted; /* at_root: only the root has the result */
    double (*expected)(const coll_case *c, int root, long i);
    void (*call)(const coll_case *c, int root);
} coll_op;

static const coll_op ops[] = {
    {"all_reduce", WHOLE, IN_PLACE, 0, 0, sum_at, all_reduce},
    {"reduce", WHOLE, WHOLE, 1, 1, sum_at, reduce},
    {"broadcast", WHOLE, IN_PLACE, 0, 1, root_at, broadcast},
    {"all_gather", PIECE, PIECES, 0, 0, pieces_at, all_gather},
    {"gather", PIECE, PIECES, 1, 1, pieces_at, gather},
    {"scatter", PIECES, PIECE, 0, 1, root_piece_at, scatter},
    {"reduce_scatter", PIECES, PIECE, 0, 0, my_sum_at, reduce_scatter},
    {"all_to_all", PIECES, PIECES, 0, 0, my_pieces_at, all_to_all},
    {"barrier", WHOLE, IN_PLACE, 0, 0, NULL, barrier},
    {"send_recv", WHOLE, IN_PLACE, 0, 0, root_at, send_recv},
    {"ping_pong", WHOLE, IN_PLACE, 0, 0, root_at, ping_pong},
};
enum { NUM_OPS = sizeof ops / sizeof *ops };

static long extent(const coll_case *c, int kind)
{
    return kind == WHOLE ? c->count : kind == PIECE ? c->piece : (long)c->piece * c->ranks;
}

/* Zeroed, and with huge pages where they help, as the library's own pool has them. */
static float *buffer(long n)
{
    size_t bytes = ((size_t)n * sizeof(float) / HUGE_PAGE + 1) * HUGE_PAGE;
    float *p = aligned_alloc(HUGE_PAGE, bytes);
    if (!p) MPI_Abort(MPI_COMM_WORLD, 1);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void check(const coll_case *c, const coll_op *op, int number)
{
    int root = op->rooted ? number % c->ranks : 0;
    long n = extent(c, op->in), results = op->out == IN_PLACE ? n : extent(c, op->out);
    if (!op->expected) return;
    for (long i = 0; i < n; i++) c->in[i] = (float)pattern(i, c->rank);
    op->call(c, root);
    if ((op->at_root && c->rank != root) || (!op->rooted && op->expected == root_at && is_aside(c)))
        return;
    for (long i = 0; i < results; i++)
        if (c->out[i] != (float)op->expected(c, root, i)) {
            fprintf(stderr, "coll_mpi: %s of %d floats: element %ld is %g on rank %d\n", op->name,
                    c->count, i, c->out[i], c->rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double one_sample(const coll_case *c, const coll_op *op, long first, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < calls; i++) op->call(c, op->rooted ? (int)((first + i) % c->ranks) : 0);
    return (MPI_Wtime() - begin) * 1e6 / calls;
}

static double slowest(double us)
{
    MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return us;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const coll_case *c, const coll_op *op, const char *name, int hosts, double *us,
                  int samples, int calls)
{
    long bytes = op->expected ? (long)c->count * 4 : 0;
    qsort(us, (size_t)samples, sizeof *us, by_value);
    double median = (us[samples / 2] + us[(samples - 1) / 2]) / 2;
    printf("{\"op\":\"%s\",\"bytes\":%ld,\"ranks\":%d,\"hosts\":%d,\"backend\":\"%s\","
           "\"memory\":\"heap\",\"dtype\":\"f32\",\"us_median\":%.6g,\"us_min\":%.6g,"
           "\"us_p99\":%.6g,\"check\":\"ok\",\"samples\":%d,\"calls_per_sample\":%d}\n",
           op->name, bytes, c->ranks, hosts, name, median, us[0], us[(int)ceil(0.99 * samples) - 1],
           samples, calls);
    fflush(stdout);
}

static void measure(const coll_op *op, long bytes, const char *name, double seconds, int hosts)
{
    static double us[MAX_SAMPLES];
    coll_case c = {.op = op->name, .count = bytes < 4 ? 1 : (int)(bytes / 4)};
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
    c.piece = c.count / c.ranks > 0 ? c.count / c.ranks : 1;
    c.in = buffer(extent(&c, op->in));
    c.out = op->out == IN_PLACE ? c.in : buffer(extent(&c, op->out));
    check(&c, op, 0);
    memset(c.in, 0, (size_t)extent(&c, op->in) * sizeof *c.in);
    double each = slowest(one_sample(&c, op, 0, 5));
    each = slowest(one_sample(&c, op, 0, each < SAMPLE_US / 10.0 ? 50 : 5));
    int calls = (int)fmax(1, fmin(ceil(SAMPLE_US / each), MAX_CALLS));
    int samples = (int)fmax(MIN_SAMPLES, fmin(seconds * 1e6 / (each * calls), MAX_SAMPLES));
    for (int i = 0; i < samples; i++) us[i] = one_sample(&c, op, (long)i * calls, calls);
    MPI_Allreduce(MPI_IN_PLACE, us, samples, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < samples && op->call == ping_pong; i++) us[i] /= 2;
    check(&c, op, c.ranks - 1);
    if (c.rank == 0) print(&c, op, name, hosts, us, samples, calls);
    if (c.out != c.in) free(c.out);
    free(c.in);
}

static const coll_op *find_op(const char *name)
{
    for (int i = 0; i < NUM_OPS; i++)
        if (strcmp(ops[i].name, name) == 0) return &ops[i];
    fprintf(stderr, "coll_mpi: there is no '%s'\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

int main(int argc, char **argv)
{
    char *op_end, *size_end;
    MPI_Init(&argc, &argv);
    if (argc < 5) {
        fprintf(stderr, "usage: coll_mpi NAME OPS SIZES SECONDS [HOSTS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (char *op = strtok_r(argv[2], ",", &op_end); op; op = strtok_r(NULL, ",", &op_end)) {
        char sizes[1024];
        snprintf(sizes, sizeof sizes, "%s", strcmp(op, "barrier") == 0 ? "0" : argv[3]);
        for (char *size = strtok_r(sizes, ",", &size_end); size;
             size = strtok_r(NULL, ",", &size_end))
            measure(find_op(op), atol(size), argv[1], atof(argv[4]), argc > 5 ? atoi(argv[5]) : 1);
    }
    MPI_Finalize();
    return 0;
}
