# SPDX-License-Identifier: Apache-2.0
# TS_BLAS_PATH: the CBLAS library that is loaded at the first matrix product.  By default the serial
# OpenBLAS, by its own folder and never through the system's alternatives, because our own pool tiles
# large products over threads.  Others: -DTS_BLAS_LIBRARY=/path/libblis.so.4
find_library(TS_BLAS_LIBRARY NAMES libopenblas.so.0
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH)
if(NOT TS_BLAS_LIBRARY)
  message(FATAL_ERROR "no CBLAS library: install libopenblas0-serial or set TS_BLAS_LIBRARY")
endif()
set(TS_BLAS_PATH ${TS_BLAS_LIBRARY})
