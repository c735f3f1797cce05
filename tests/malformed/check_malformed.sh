#!/usr/bin/env bash
# Damaged files of a format: each is refused with its sentence.  Exit 77 (skipped) where there is no Python.
# usage: check_malformed.sh OPEN_MALFORMED scripts/make_malformed_FORMAT.py
set -eu
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 "$2" "$folder"
"$1" "$folder"
