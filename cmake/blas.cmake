# SPDX-License-Identifier: Apache-2.0
# ts_blas: CBLAS for matrix products.  The serial OpenBLAS is linked by its own folder, never through
# the system's alternatives, because our own pool tiles large products over threads.
find_path(TS_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-serial
  HINTS ${TS_BLAS_DIR} /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} REQUIRED)
find_library(TS_CBLAS_LIBRARY NAMES openblas blis PATHS ${TS_BLAS_DIR}
  /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH REQUIRED)
get_filename_component(TS_CBLAS_FOLDER ${TS_CBLAS_LIBRARY} DIRECTORY)
add_library(ts_blas INTERFACE)
target_include_directories(ts_blas SYSTEM INTERFACE ${TS_CBLAS_INCLUDE})
target_link_libraries(ts_blas INTERFACE ${TS_CBLAS_LIBRARY})
target_link_options(ts_blas INTERFACE -Wl,-rpath,${TS_CBLAS_FOLDER})
