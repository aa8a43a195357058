# SPDX-License-Identifier: Apache-2.0
# The two commands that matter: `make demo` and `make test`.  Both install what is missing.

BUILD ?= build
PREFIX ?= /usr/local
CMAKE_FLAGS ?=

.PHONY: all configure build demo test bench lint soak sanitize docs install clean deps
all: build

deps:
	@scripts/install-deps.sh

configure: deps
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS) >$(BUILD).log 2>&1 \
	    || { cat $(BUILD).log; exit 1; }

build: configure
	@cmake --build $(BUILD)

demo: configure
	@cmake --build $(BUILD) --target tessera_tool
	@scripts/demo $(BUILD)

test: build
	@$(BUILD)/bin/tessera-tests

bench: build
	@scripts/bench $(BUILD)

lint: deps
	@scripts/lint $(BUILD)

soak: build
	@scripts/soak $(BUILD)

sanitize: deps
	@scripts/sanitize

docs: build
	@scripts/make-docs $(BUILD)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@rm -rf $(BUILD) $(BUILD).log build-*
