# SPDX-License-Identifier: Apache-2.0
# TS_BLAS_PATH: the CBLAS library that is loaded at the first matrix product.  By default OpenBLAS, by
# its own folder and never through the system's alternatives.  It is used without threads of its own,
# but it must be a build that several threads may call at once, which Debian's serial one is not (see
# docs/rationale.md).  Others: -DTS_BLAS_LIBRARY=/path/libblis.so.4
find_library(TS_BLAS_LIBRARY NAMES libopenblas.so.0
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread NO_DEFAULT_PATH)
if(NOT TS_BLAS_LIBRARY)
  message(FATAL_ERROR "no CBLAS library: install libopenblas0-pthread or set TS_BLAS_LIBRARY")
endif()
set(TS_BLAS_PATH ${TS_BLAS_LIBRARY})
