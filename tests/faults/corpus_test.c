/* SPDX-License-Identifier: Apache-2.0 */
/* Every fuzz target reads its corpus. */
#include "../cli/cli.h"
#include "paths.h"

static void replay(ts_test *test, const char *name)
{
    static cli_job job;
    char line[600];
    snprintf(line, sizeof line, TS_BINARY_DIR "/bin/replay-%s %s/%s", name,
             ts_test_path("tests/fuzz/corpus"), name);
    cli_run(test, &job, line);
    CLI_EXPECT_STATUS(&job, 0);
}

TS_TEST(fuzz_corpus_of_links) { replay(test, "engine_bytes"); }
TS_TEST(fuzz_corpus_of_names) { replay(test, "names"); }
TS_TEST(fuzz_corpus_of_pickles) { replay(test, "pickle"); }
TS_TEST(fuzz_corpus_of_tensor_files) { replay(test, "tensor_file"); }
TS_TEST(fuzz_corpus_of_objects) { replay(test, "object"); }
TS_TEST(fuzz_corpus_of_store_clients) { replay(test, "store_client"); }
TS_TEST(fuzz_corpus_of_store_servers) { replay(test, "store_server"); }
TS_TEST(fuzz_corpus_of_dumps) { replay(test, "trace"); }
