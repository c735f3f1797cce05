#!/usr/bin/env bash
# What is installed works somewhere else: a foreign program finds it by pkg-config, links either library, and runs.
# usage: check_install.sh BUILD_FOLDER C_COMPILER PROGRAM.c
set -eu
build=$1 cc=$2 program=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"
pc=$(find "$folder/moved" -name alibi.pc)
export PKG_CONFIG_PATH=${pc%/*}
read -ra cflags <<<"$(pkg-config --cflags alibi)"
read -ra shared <<<"$(pkg-config --libs alibi)"
read -ra static <<<"$(pkg-config --libs --static alibi)"
libraries=$(pkg-config --variable=libdir alibi)

"$cc" "${cflags[@]}" "$program" "${shared[@]}" -o "$folder/shared"
LD_LIBRARY_PATH=$libraries "$folder/shared"

rm "$libraries"/libalibi.so*
"$cc" "${cflags[@]}" "$program" "${static[@]}" -o "$folder/static"
"$folder/static"

"$folder/moved/bin/alibi" --version
