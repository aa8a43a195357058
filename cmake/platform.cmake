# SPDX-License-Identifier: Apache-2.0
# Futexes, epoll, memory files and process descriptors are Linux's own.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "Tessera runs on Linux; ${CMAKE_SYSTEM_NAME} is not supported")
endif()
