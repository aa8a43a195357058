# SPDX-License-Identifier: Apache-2.0
# One plug-in per MPI that is installed, from the same sources.  They link MPI and nothing of ours.
option(TS_MPI "Build the MPI plug-ins for the MPIs that are found" ON)
file(GLOB TS_MPI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/comm/backend/mpi/*.c)

function(ts_mpi_plugin name package)
  pkg_check_modules(${name} QUIET IMPORTED_TARGET ${package})
  if(NOT ${name}_FOUND)
    message(STATUS "backend mpi: no ${package}, so no plug-in for it")
    return()
  endif()
  string(TOLOWER ${name} lower)
  add_library(tessera_mpi_${lower} MODULE ${TS_MPI_SOURCES})
  set_target_properties(tessera_mpi_${lower} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/tessera)
  target_compile_definitions(tessera_mpi_${lower} PRIVATE _GNU_SOURCE)
  target_compile_options(tessera_mpi_${lower} PRIVATE
    $<TARGET_PROPERTY:ts_options,INTERFACE_COMPILE_OPTIONS>
    -Wno-stringop-overflow) # MPICH's MPI_STATUSES_IGNORE is the address 1
  target_include_directories(tessera_mpi_${lower} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tessera_mpi_${lower} PRIVATE PkgConfig::${name} Threads::Threads)
  target_link_options(tessera_mpi_${lower} PRIVATE -Wl,--no-undefined
    $<TARGET_PROPERTY:ts_options,INTERFACE_LINK_OPTIONS>)
  install(TARGETS tessera_mpi_${lower} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
endfunction()

if(TS_MPI)
  ts_mpi_plugin(OPENMPI ompi-c)
  ts_mpi_plugin(MPICH mpich)
endif()
