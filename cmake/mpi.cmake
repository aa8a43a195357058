# SPDX-License-Identifier: Apache-2.0
# One plug-in of the backend mpi per MPI that is installed, from the same sources, and the PMIx server
# of the launcher.  They link MPI or PMIx and nothing of ours.
option(TS_MPI "Build the MPI plug-ins for the MPIs that are found" ON)
file(GLOB TS_MPI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/comm/backend/mpi/*.c)
file(GLOB TS_PMIX_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/launch/pmix/*.c)

# NAME of the file, pkg-config package, Debian packages, sources
function(ts_plugin name package debian)
  if(TS_MPI)
    string(TOUPPER TS_PKG_${name} found)
    pkg_check_modules(${found} QUIET IMPORTED_TARGET ${package})
  endif()
  if(NOT ${found}_FOUND)
    set(TS_LEFT_OUT ${TS_LEFT_OUT} "${name} (${debian})" PARENT_SCOPE)
    return()
  endif()
  add_library(tessera_${name} MODULE ${ARGN})
  set_target_properties(tessera_${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tessera)
  target_compile_definitions(tessera_${name} PRIVATE _GNU_SOURCE)
  target_compile_options(tessera_${name} PRIVATE
    $<TARGET_PROPERTY:ts_options,INTERFACE_COMPILE_OPTIONS>
    -Wno-unknown-warning-option -Wno-stringop-overflow) # MPICH's MPI_STATUSES_IGNORE is the address 1
  target_include_directories(tessera_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(tessera_${name} PRIVATE PkgConfig::${found} Threads::Threads)
  target_link_options(tessera_${name} PRIVATE -Wl,--no-undefined
    $<TARGET_PROPERTY:ts_options,INTERFACE_LINK_OPTIONS>)
  install(TARGETS tessera_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
endfunction()

ts_plugin(mpi_openmpi ompi-c "libopenmpi-dev openmpi-bin" ${TS_MPI_SOURCES})
ts_plugin(mpi_mpich mpich "libmpich-dev mpich" ${TS_MPI_SOURCES})
ts_plugin(pmix pmix "libpmix-dev" ${TS_PMIX_SOURCES})
if(TS_LEFT_OUT)
  list(JOIN TS_LEFT_OUT ", " TS_LEFT_OUT)
  if(NOT TS_MPI)
    set(TS_LEFT_OUT "${TS_LEFT_OUT}, by TS_MPI=OFF")
  endif()
  message(STATUS "Plug-ins left out (Debian packages they need): ${TS_LEFT_OUT}")
endif()
