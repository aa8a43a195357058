# SPDX-License-Identifier: Apache-2.0
# One test program: the library's objects, every *_test.c beside the code, the scenarios of tests/ and
# the harness.
file(GLOB_RECURSE TS_TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.c
  ${PROJECT_SOURCE_DIR}/tools/*_test.c ${PROJECT_SOURCE_DIR}/tests/*.c)
list(FILTER TS_TEST_SOURCES EXCLUDE REGEX
  "/tests/(fuzz/|backend/(check|by_store)\.c|conformance/main\.c)")
add_executable(tessera_tests ${TS_TEST_SOURCES} $<TARGET_OBJECTS:tessera_objects>)
set_target_properties(tessera_tests PROPERTIES OUTPUT_NAME tessera-tests)
target_include_directories(tessera_tests PRIVATE src tests/harness)
target_compile_definitions(tessera_tests PRIVATE TS_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  TS_BINARY_DIR="${CMAKE_BINARY_DIR}")
target_link_libraries(tessera_tests PRIVATE ts_options ${CMAKE_DL_LIBS})

# One rank of the jobs that backend_test.c starts.
add_executable(backend_check ${PROJECT_SOURCE_DIR}/tests/backend/check.c
  ${PROJECT_SOURCE_DIR}/tests/backend/by_store.c)
set_target_properties(backend_check PROPERTIES OUTPUT_NAME backend-check)
target_include_directories(backend_check PRIVATE include)
target_compile_options(backend_check PRIVATE
  $<TARGET_PROPERTY:ts_options,INTERFACE_COMPILE_OPTIONS>)
target_compile_definitions(backend_check PRIVATE _GNU_SOURCE)
target_link_libraries(backend_check PRIVATE tessera_shared m)
target_link_options(backend_check PRIVATE $<TARGET_PROPERTY:ts_options,INTERFACE_LINK_OPTIONS>)
add_dependencies(tessera_tests backend_check)

# One rank of the jobs that run the conformance table under another launcher.
file(GLOB TS_CONFORMANCE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conformance/*.c)
list(FILTER TS_CONFORMANCE EXCLUDE REGEX "_test[.]c$")
add_executable(conformance ${TS_CONFORMANCE})
target_include_directories(conformance PRIVATE include)
target_compile_options(conformance PRIVATE
  $<TARGET_PROPERTY:ts_options,INTERFACE_COMPILE_OPTIONS>)
target_compile_definitions(conformance PRIVATE _GNU_SOURCE)
target_link_libraries(conformance PRIVATE tessera_shared m)
target_link_options(conformance PRIVATE $<TARGET_PROPERTY:ts_options,INTERFACE_LINK_OPTIONS>)
add_dependencies(tessera_tests conformance)

if(TARGET tessera_tool)
  add_dependencies(tessera_tests tessera_tool)
endif()
