# SPDX-License-Identifier: Apache-2.0
# Each lesson is one file that uses the library as a program of a user does: through the shared
# library and its public headers alone.
file(GLOB TS_EXAMPLES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(source ${TS_EXAMPLES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name})
  target_include_directories(example_${name} PRIVATE include)
  target_compile_options(example_${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
  target_link_libraries(example_${name} PRIVATE tessera_shared)
  if(TS_SANITIZE) # the sanitizer's own library must be loaded first
    target_link_options(example_${name} PRIVATE -fsanitize=${TS_SANITIZE})
  endif()
endforeach()
