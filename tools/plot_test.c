/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "test.h"

/* The program's objects are not part of the test program; the chart is small enough to include. */
#include "plot.c"

TS_TEST(plot_has_axes_curves_and_legend)
{
    char path[256], text[65536];
    ts_series curve[2] = {{.name = "training", .color = "#1f77b4"},
                          {.name = "held out", .color = "#d62728", .points = true}};
    for (int i = 0; i < 5000; i++) TS_EXPECT(ts_series_add(&curve[0], i, 5.5 * exp(-i / 900.0)));
    for (int i = 0; i < 5; i++) TS_EXPECT(ts_series_add(&curve[1], 1000 * i, 5 - i));
    TS_EXPECT(ts_series_add(&curve[1], 1, NAN));
    TS_EXPECT_INT(curve[1].count, 5);
    snprintf(path, sizeof path, "%s/loss.svg", test->dir);
    ts_plot plot = {.title = "Loss <GPT>",
                    .x_label = "step",
                    .y_label = "nats per byte",
                    .series = curve,
                    .count = 2};
    TS_PASS(ts_plot_write(&plot, path));
    FILE *f = fopen(path, "r");
    TS_EXPECT(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    TS_EXPECT_TEXT(text, "</svg>");
    TS_EXPECT_TEXT(text, ">held out</text>");
    TS_EXPECT_TEXT(text, "Loss &#60;GPT&#62;");
    TS_EXPECT_TEXT(text, ">5000</text>");
    TS_EXPECT(!strstr(text, "nan") && !strstr(text, "inf"));
    TS_FAIL(ts_plot_write(&plot, "/nonexistent/loss.svg"), TS_EIO, "/nonexistent/loss.svg");
    ts_series_free(&curve[0]);
    ts_series_free(&curve[1]);
}

TS_TEST(plot_writes_into_devices_and_does_not_replace_them)
{
    char file[256], link[256];
    struct stat info;
    ts_plot plot = {.title = "Loss", .x_label = "step", .y_label = "nats"};
    TS_FAIL(ts_plot_write(&plot, "/dev/full"), TS_EIO, "/dev/full");
    TS_EXPECT(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
    TS_PASS(ts_plot_check("/dev/full"));
    TS_FAIL(ts_plot_check("/nonexistent/loss.svg"), TS_EIO, "/nonexistent/loss.svg");
    snprintf(file, sizeof file, "%s/file.svg", test->dir);
    snprintf(link, sizeof link, "%s/link.svg", test->dir);
    TS_PASS(ts_plot_check(file));
    TS_EXPECT(stat(file, &info) != 0);
    TS_EXPECT(symlink(file, link) == 0);
    TS_PASS(ts_plot_write(&plot, link));
    TS_EXPECT(stat(file, &info) == 0 && info.st_size > 0);
    TS_EXPECT(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
}

TS_TEST(plot_logarithmic_axes_count_bytes_in_powers_of_two)
{
    char path[256], text[65536];
    ts_series time = {.name = "time", .color = "#1f77b4", .points = true};
    for (int i = 0; i < 7; i++) TS_EXPECT(ts_series_add(&time, pow(2, 2 + 4 * i), pow(10, i - 1)));
    TS_EXPECT(ts_series_add(&time, 0, 5)); /* has no place on such an axis */
    snprintf(path, sizeof path, "%s/log.svg", test->dir);
    ts_plot plots[2] = {{.title = "A", .series = &time, .count = 1, .log = true}, {.title = "B"}};
    for (int i = 0; i < 2; i++) plots[i].x_label = plots[i].y_label = "";
    TS_PASS(ts_plots_write(plots, 2, 2, path));
    FILE *f = fopen(path, "r");
    TS_EXPECT(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    TS_EXPECT_TEXT(text, ">64M</text>");
    TS_EXPECT_TEXT(text, ">0.1</text>");
    TS_EXPECT_TEXT(text, ">100000</text>");
    TS_EXPECT_TEXT(text, "width=\"1720\" height=\"480\"");
    TS_EXPECT(!strstr(text, "nan") && !strstr(text, "inf"));
    ts_series_free(&time);
}
