# The front door.  It sets up the machine, calls CMake in build/, and says where to look.

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
CMAKE_OPTIONS ?=

.PHONY: help build check demo bench install clean format
.DEFAULT_GOAL := help

help:
	@echo 'make demo      set up, build, train six methods short and test them long: the report is in out/demo/'
	@echo '               (TEXT=FILE: on your own text, OUT=FOLDER: the report elsewhere, OPTIONS=...: for alibi study)'
	@echo 'make build     set up and build into $(BUILD)/: the command is $(BUILD)/alibi'
	@echo 'make check     set up, build and run all tests'
	@echo 'make bench     measure the kernels'
	@echo 'make install   install the command, libalibi, headers and alibi.pc under PREFIX=$(PREFIX)'
	@echo 'make format    format the sources with clang-format'
	@echo 'make clean     remove $(BUILD)/'

build:
	@scripts/setup.sh build
	@scripts/build.sh $(BUILD) $(JOBS) products $(CMAKE_OPTIONS)

check:
	@scripts/setup.sh check
	@scripts/build.sh $(BUILD) $(JOBS) all -DALIBI_TESTS=ON $(CMAKE_OPTIONS)
	@scripts/check.sh $(BUILD) $(JOBS)

demo:
	@scripts/setup.sh demo
	@scripts/build.sh $(BUILD) $(JOBS) products $(CMAKE_OPTIONS)
	@scripts/demo.sh $(BUILD)/alibi

bench: build
	$(BUILD)/alibi bench attention

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)
	@if [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

clean:
	cmake -E rm -rf $(BUILD)

format:
	clang-format -i $$(git ls-files 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'bench/*.[ch]' 'fuzz/*.[ch]')
