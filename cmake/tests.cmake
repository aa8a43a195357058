# SPDX-License-Identifier: Apache-2.0
# One test program: the library's objects, every *_test.c beside the code, the scenarios of tests/ and
# the harness.
file(GLOB_RECURSE TS_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.c
  ${PROJECT_SOURCE_DIR}/tools/*_test.c ${PROJECT_SOURCE_DIR}/tests/*.c)
list(FILTER TS_TEST_SOURCES EXCLUDE REGEX
  "/tests/(fuzz/|faults/[a-z]+\.c|backend/failing_rank\.c|conformance/(main|by_store)\.c)")
add_executable(tessera_tests ${TS_TEST_SOURCES} $<TARGET_OBJECTS:tessera_objects>)
set_target_properties(tessera_tests PROPERTIES OUTPUT_NAME tessera-tests)
configure_file(${PROJECT_SOURCE_DIR}/tests/harness/paths.h.in ${CMAKE_BINARY_DIR}/tests/paths.h @ONLY)
target_include_directories(tessera_tests PRIVATE src tests/harness ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(tessera_tests PRIVATE ts_options PkgConfig::CJSON ${CMAKE_DL_LIBS})

# Programs of one rank each, built as a user's: the conformance table, and ranks that fail.
file(GLOB TS_CONFORMANCE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conformance/*.c)
list(FILTER TS_CONFORMANCE EXCLUDE REGEX "_test[.]c$")
function(ts_rank_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE include)
  target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:ts_options,INTERFACE_COMPILE_OPTIONS>)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(${name} PRIVATE tessera_shared m)
  target_link_options(${name} PRIVATE $<TARGET_PROPERTY:ts_options,INTERFACE_LINK_OPTIONS>)
  add_dependencies(tessera_tests ${name})
endfunction()
ts_rank_program(conformance ${TS_CONFORMANCE})
ts_rank_program(failing-rank ${PROJECT_SOURCE_DIR}/tests/backend/failing_rank.c)

# The fault campaign.
file(GLOB TS_FAULTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/faults/*.c)
list(FILTER TS_FAULTS EXCLUDE REGEX "_test[.]c$")
add_executable(fault-campaign ${TS_FAULTS} $<TARGET_OBJECTS:tessera_objects>)
target_include_directories(fault-campaign PRIVATE src)
target_link_libraries(fault-campaign PRIVATE ts_options)
add_dependencies(tessera_tests fault-campaign)

if(TARGET tessera_tool)
  add_dependencies(tessera_tests tessera_tool)
endif()
