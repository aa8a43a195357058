# SPDX-License-Identifier: Apache-2.0
# Shared and static libtessera from the same objects, their pkg-config file and CMake package.
add_library(tessera_shared SHARED $<TARGET_OBJECTS:tessera_objects>)
set_target_properties(tessera_shared PROPERTIES OUTPUT_NAME tessera VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(tessera_shared PRIVATE ts_options)
target_link_options(tessera_shared PRIVATE -Wl,--no-undefined)

# The pkg-config files find the prefix from where they lie, so an installation can be moved.
file(RELATIVE_PATH TS_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)

# The static library hides its internal symbols too: one relocatable object whose hidden symbols are
# made local.
set(TS_STATIC ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libtessera.a)
if(NOT TS_SANITIZE)
  add_custom_command(OUTPUT ${TS_STATIC}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}
    COMMAND ${CMAKE_LINKER} -r -o tessera_all.o $<TARGET_OBJECTS:tessera_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden tessera_all.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${TS_STATIC}
    COMMAND ${CMAKE_AR} rcs ${TS_STATIC} tessera_all.o
    DEPENDS tessera_objects $<TARGET_OBJECTS:tessera_objects>
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(tessera_static ALL DEPENDS ${TS_STATIC})
  configure_file(cmake/tessera-static.pc.in ${CMAKE_BINARY_DIR}/tessera-static.pc @ONLY)
  install(FILES ${TS_STATIC} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_BINARY_DIR}/tessera-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

install(TARGETS tessera_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_file(cmake/tessera.pc.in ${CMAKE_BINARY_DIR}/tessera.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tessera-config-version.cmake
  COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/tessera-config.cmake.in ${CMAKE_BINARY_DIR}/tessera-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
install(FILES ${CMAKE_BINARY_DIR}/tessera-config.cmake ${CMAKE_BINARY_DIR}/tessera-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
