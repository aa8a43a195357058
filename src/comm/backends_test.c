/* SPDX-License-Identifier: Apache-2.0 */
/* Names of backends, registering one, and the fake one. */
#include <stdlib.h>
#include <tessera/ext/backend.h>

#include "test.h"

static ts_status init_with(const char *backend, int rank, int size)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.rank = rank;
    opt.world_size = size;
    return ts_init_process_group(&opt);
}

/* ---- names ----------------------------------------------------------------------------------- */

TS_TEST(backend_names)
{
    TS_EXPECT(ts_is_available() && ts_is_gloo_available());
    TS_EXPECT(ts_is_backend_available("Native") && ts_is_backend_available("GLOO"));
    TS_EXPECT(ts_is_backend_available("fake"));
    TS_EXPECT(!ts_is_backend_available("undefined") && !ts_is_backend_available("nosuch"));
    TS_EXPECT(!ts_is_backend_available(NULL) && !ts_is_backend_available(""));
    TS_EXPECT(!ts_is_nccl_available() && !ts_is_ucc_available() && !ts_is_xccl_available());
    TS_EXPECT(ts_is_backend_available("cpu:gloo") && ts_is_backend_available("CPU:Fake,cuda:gloo"));
    TS_EXPECT(!ts_is_backend_available("cpu:gloo,cuda:nccl"));
    TS_EXPECT(!ts_is_backend_available("cpu:gloo,cpu:fake"));
    TS_EXPECT_STR(ts_default_backend_for_device("cpu"), "native");
    TS_EXPECT_STR(ts_default_backend_for_device("CUDA:1"), "nccl");
    TS_EXPECT_STR(ts_default_backend_for_device("xpu"), "xccl");
    TS_EXPECT(!ts_default_backend_for_device("tpu"));
    TS_EXPECT_TEXT(ts_error_last(), "'tpu'");
    TS_EXPECT(!ts_default_backend_for_device(NULL));
}

TS_TEST(backend_errors_name_what_is_there)
{
    TS_FAIL(init_with("NoSuch", 0, 1), TS_EBACKEND, "no backend 'nosuch'; there are: native");
    TS_FAIL(init_with("nccl", 0, 1), TS_EBACKEND, "'nccl' is not available");
    TS_FAIL(init_with("ucc", 0, 1), TS_EBACKEND, "libtessera_ucc.so is in none of");
    TS_FAIL(init_with("xccl", 0, 1), TS_EBACKEND, "Intel");
    TS_FAIL(init_with("cpu:gloo,cuda:nccl", 0, 1), TS_EBACKEND, "'nccl' is not available");
    TS_FAIL(init_with("cpu:gloo,cuda", 0, 1), TS_EINVAL, "'cuda' is not of the form");
    TS_FAIL(init_with("cpu:a:b", 0, 1), TS_EINVAL, "'cpu:a:b'");
    TS_FAIL(init_with("cpu:gloo,cpu:fake", 0, 1), TS_EINVAL, "two backends for device cpu");
    TS_FAIL(init_with("cuda:gloo", 0, 1), TS_EUNSUPPORTED, "'native' does not serve cuda");
    TS_FAIL(init_with("fake", -1, -1), TS_EINVAL, "world_size");
    TS_FAIL(init_with("fake", 3, 3), TS_EINVAL, "3 of 3");
    TS_EXPECT(!ts_is_initialized());
    TS_PASS(init_with("cpu:GLOO", 0, 1));
    TS_EXPECT_STR(ts_group_backend(NULL), "native");
    TS_PASS(ts_destroy_process_group(NULL));
}

/* The cpu is the only device that there is at run time. */
TS_TEST(backend_that_is_taken_without_a_name)
{
    TS_PASS(init_with(NULL, 0, 1));
    TS_EXPECT_STR(ts_group_backend(NULL), ts_default_backend_for_device("cpu"));
    TS_PASS(ts_destroy_process_group(NULL));
}

/* Of a single call: all that do not lie on the cpu are named, on this rank and to the others. */
TS_TEST(backend_tensors_of_several_devices, .ranks = 2)
{
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    ts_tensor *in = ts_ones(TS_SHAPE(3), NULL), *other = ts_zeros(TS_SHAPE(3), NULL);
    ts_tensor *mixed[2] = {other, ts_zeros(TS_SHAPE(3), &meta)};
    ts_tensor *good[2] = {other, ts_zeros(TS_SHAPE(3), NULL)};
    bool bad = test->rank == 1;
    TS_FAIL(ts_all_gather(NULL, bad ? mixed : good, 2, in, NULL),
            bad ? TS_EUNSUPPORTED : TS_EREMOTE, "lies on device meta");
    TS_FAIL(ts_all_reduce_coalesced(NULL, bad ? mixed : good, 2, TS_SUM, NULL),
            bad ? TS_EUNSUPPORTED : TS_EREMOTE, "lies on device meta");
    TS_PASS(ts_all_gather(NULL, good, 2, in, NULL));
    TS_EXPECT_ALL(good[1], 1);
}

/* ---- registering ----------------------------------------------------------------------------- */

typedef struct mute_options {
    struct ts_backend_options base;
    int answer;
} mute_options;

static int answered;

static ts_status mute_place(int *rank, int *size)
{
    *rank = 1;
    *size = 4;
    return TS_OK;
}

static ts_status mute_init(void *self, const ts_backend_context *context)
{
    (void)self;
    answered = context->options ? ((const mute_options *)context->options)->answer : -1;
    return answered == 13 ? ts_host()->fail(TS_EBACKEND, "mute: 13 is bad luck") : TS_OK;
}

static void mute_fini(void *self) { (void)self; }

static void mute_abort(void *self, ts_status status, const char *text)
{
    (void)self, (void)status, (void)text;
}

static bool mute_is_broken(void *self)
{
    (void)self;
    return false;
}

/* Offers no operation at all. */
static const ts_backend_ops mute = {.version = TS_BACKEND_VERSION,
                                    .name = "mute",
                                    .capabilities = TS_CAN_SHRINK,
                                    .state_size = 8,
                                    .place = mute_place,
                                    .init = mute_init,
                                    .fini = mute_fini,
                                    .abort = mute_abort,
                                    .is_broken = mute_is_broken};

TS_TEST(backend_register)
{
    ts_backend_ops other = mute;
    TS_FAIL(ts_register_backend(NULL, "cpu"), TS_EINVAL, "NULL");
    other.version = 999;
    TS_FAIL(ts_register_backend(&other, "cpu"), TS_EINVAL, "version 999");
    other = mute;
    other.name = "mpi";
    TS_FAIL(ts_register_backend(&other, "cpu"), TS_EINVAL, "a backend 'mpi' already");
    other.name = "gloo";
    TS_FAIL(ts_register_backend(&other, "cpu"), TS_EINVAL, "already");
    other.name = "Mute";
    TS_FAIL(ts_register_backend(&other, "cpu"), TS_EINVAL, "small letters");
    other.name = "mute";
    other.fini = NULL;
    TS_FAIL(ts_register_backend(&other, "cpu"), TS_EINVAL, "lacks");
    TS_EXPECT(!ts_is_backend_available("mute"));
    TS_PASS(ts_register_backend(&mute, "cpu,tpu"));
    TS_FAIL(ts_register_backend(&mute, "cpu"), TS_EINVAL, "already");
    TS_EXPECT(ts_is_backend_available("MUTE") && ts_is_backend_available("tpu:mute"));
    TS_EXPECT_STR(ts_default_backend_for_device("tpu:0"), "mute");
    TS_EXPECT_STR(ts_default_backend_for_device("cpu"), "native");
    TS_FAIL(init_with("nosuch", 0, 1), TS_EBACKEND, "mute");
}

TS_TEST(backend_without_operations)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    mute_options own = {{"mute"}, 42};
    ts_tensor *t = ts_ones(TS_SHAPE(3), NULL);
    TS_PASS(ts_register_backend(&mute, NULL));
    opt.backend = "mute";
    opt.rank = 0;
    opt.backend_options = &own.base;
    TS_PASS(ts_init_process_group(&opt));
    TS_EXPECT_INT(answered, 42);
    TS_EXPECT_INT(ts_rank(), 1);
    TS_EXPECT_INT(ts_world_size(), 4);
    TS_EXPECT_INT(ts_group_capabilities(NULL), TS_CAN_SHRINK);
    TS_FAIL(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EUNSUPPORTED,
            "all_reduce: backend 'mute' does not offer it for cpu tensors");
    TS_FAIL(ts_send(NULL, t, 0, 0), TS_EUNSUPPORTED,
            "send: backend 'mute' does not offer messages of cpu tensors");
    TS_PASS(ts_destroy_process_group(NULL));
    own.answer = 13;
    TS_FAIL(ts_init_process_group(&opt), TS_EBACKEND, "bad luck");
    opt.backend = "native";
    opt.world_size = 1;
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "for 'mute', but the backend is 'native'");
}

static void *init_mute(void *user)
{
    if (ts_rank_enter(0, 1, NULL) == TS_OK && ts_destroy_process_group(NULL) == TS_OK)
        *(ts_status *)user = init_with("mute", 0, 1);
    ts_rank_leave();
    return NULL;
}

TS_TEST(backend_of_processes_refuses_threads)
{
    pthread_t thread;
    ts_status status = TS_OK;
    TS_PASS(ts_register_backend(&mute, "cpu"));
    TS_EXPECT_INT(pthread_create(&thread, NULL, init_mute, &status), 0);
    pthread_join(thread, NULL);
    TS_EXPECT_INT(status, TS_EUNSUPPORTED);
}

/* ---- fake ------------------------------------------------------------------------------------ */

TS_TEST(fake_backend)
{
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *out = ts_zeros(TS_SHAPE(6), NULL);
    ts_work *work;
    int from = -1;
    TS_PASS(init_with("fake", 1, 3));
    TS_EXPECT_STR(ts_group_backend(NULL), "fake");
    TS_EXPECT_INT(ts_group_rank(NULL), 1);
    TS_EXPECT_INT(ts_group_size(NULL), 3);
    TS_EXPECT(ts_group_capabilities(NULL) & TS_CAN_USE_THREADS);
    TS_PASS(ts_barrier(NULL, NULL));
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, 1);
    TS_PASS(ts_broadcast(NULL, t, 0, NULL));
    TS_EXPECT_ALL(t, 1);
    TS_PASS(ts_all_gather_into_tensor(NULL, out, t, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_EXPECT_ALL(out, 1);
    TS_PASS(ts_reduce_scatter_tensor(NULL, t, ts_arange(0, 6, 1, NULL), TS_SUM, NULL));
    TS_EXPECT_VALUES(t, 0, 2, 3);
    TS_PASS(ts_send(NULL, t, 2, 0));
    TS_PASS(ts_recv(NULL, t, 2, 0, &from));
    TS_EXPECT_INT(from, 2);
    TS_EXPECT_VALUES(t, 0, 2, 3);
    TS_FAIL(ts_all_reduce(NULL, NULL, TS_SUM, NULL), TS_EINVAL, "all_reduce");
    TS_PASS(ts_destroy_process_group(NULL));
}

TS_TEST(fake_backend_of_many_ranks)
{
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *out = ts_zeros(TS_SHAPE(20000, 2), NULL);
    setenv("RANK", "19999", 1);
    setenv("WORLD_SIZE", "20000", 1);
    TS_PASS(init_with("fake", -1, -1));
    TS_EXPECT_INT(ts_rank(), 19999);
    TS_PASS(ts_all_gather_into_tensor(NULL, out, t, NULL));
    TS_EXPECT_ALL(out, 1);
    for (int i = 0; i < 1000; i++) TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_PASS(ts_destroy_process_group(NULL));
}
