# SPDX-License-Identifier: Apache-2.0
# Fuzz targets, for clang: cmake -DTS_FUZZ=ON -DCMAKE_C_COMPILER=clang
# -DTS_SANITIZE=fuzzer-no-link,address,undefined; each file of tests/fuzz becomes bin/fuzz-NAME.
file(GLOB TS_FUZZ_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
foreach(source ${TS_FUZZ_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz-${name} ${source} $<TARGET_OBJECTS:tessera_objects>)
  target_include_directories(fuzz-${name} PRIVATE src)
  target_link_libraries(fuzz-${name} PRIVATE ts_options)
  target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
endforeach()

target_sources(fuzz-trace PRIVATE ${PROJECT_SOURCE_DIR}/tools/doctor/trace.c
  ${PROJECT_SOURCE_DIR}/tools/doctor/report.c ${PROJECT_SOURCE_DIR}/tools/json.c)
target_include_directories(fuzz-trace PRIVATE tools)
target_link_libraries(fuzz-trace PRIVATE PkgConfig::CJSON)
