# SPDX-License-Identifier: Apache-2.0
# Fuzz targets, one per file of tests/fuzz, with what has been found worth keeping in corpus/NAME.
# Tests run them over their corpus (bin/replay-NAME).  For clang there is the fuzzer (bin/fuzz-NAME):
# cmake -DTS_FUZZ=ON -DCMAKE_C_COMPILER=clang -DTS_SANITIZE=fuzzer-no-link,address,undefined, then the target fuzz.
file(GLOB TS_FUZZ_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
list(FILTER TS_FUZZ_SOURCES EXCLUDE REGEX "/replay\\.c$")

function(ts_fuzz_program name source)
  add_executable(${name} ${source} ${ARGN} $<TARGET_OBJECTS:tessera_objects>)
  target_include_directories(${name} PRIVATE src tools)
  target_link_libraries(${name} PRIVATE ts_options)
  if(source MATCHES "/trace\\.c$")
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools/doctor/trace.c
      ${PROJECT_SOURCE_DIR}/tools/doctor/report.c ${PROJECT_SOURCE_DIR}/tools/json.c)
    target_link_libraries(${name} PRIVATE PkgConfig::CJSON)
  endif()
endfunction()

if(TS_FUZZ)
  add_custom_target(fuzz)
endif()
foreach(source ${TS_FUZZ_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  if(TS_FUZZ)
    ts_fuzz_program(fuzz-${name} ${source})
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz fuzz-${name})
  endif()
  if(TARGET tessera_tests)
    ts_fuzz_program(replay-${name} ${source} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
    add_dependencies(tessera_tests replay-${name})
  endif()
endforeach()
