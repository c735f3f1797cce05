#!/usr/bin/env bash
# Installs what is missing for a target, with apt-get, as root or with sudo.  Where nothing is missing it does
# nothing and needs no network; where it cannot install, it says in one sentence what is missing.
# usage: setup.sh build|check|demo|ci
set -u
target=${1:-build}

packages=()
need() { # need PACKAGE COMMAND...: the package, unless the command succeeds
  local package=$1
  shift
  "$@" >/dev/null 2>&1 && return
  case " ${packages[*]-} " in *" $package "*) ;; *) packages+=("$package") ;; esac
}
have() { command -v "$1"; }
library() { pkg-config --exists "$@"; }

find_missing() {
  packages=()
  need build-essential have cc
  need build-essential have make
  need cmake have cmake
  need pkg-config have pkg-config
  need libjansson-dev library 'jansson >= 2.10'
  need libpcre2-dev library 'libpcre2-8 >= 10.34'
  need libutf8proc-dev library 'libutf8proc >= 2.4'
  need libxxhash-dev library 'libxxhash >= 0.8.0'
  need zlib1g-dev library zlib
  need libzstd-dev library 'libzstd >= 1.4.0'
  if [ "$target" = check ] || [ "$target" = ci ]; then
    need libcmocka-dev library cmocka
    if ! { have mpiexec && have mpicc; } >/dev/null; then # any MPI will do
      need mpich have mpiexec
      need libmpich-dev have mpicc
    fi
    need build-essential have c++
  fi
  if [ "$target" = demo ]; then
    need gnuplot-nox have gnuplot
    [ -n "${TEXT:-}" ] || need bible-kjv have bible
  fi
  if [ "$target" = ci ]; then
    need clang have clang
    need libomp-dev sh -c 'echo "int main(void){return 0;}" | clang -fopenmp -x c - -o /dev/null'
  fi
}

find_missing
[ ${#packages[@]} -eq 0 ] && exit 0
wanted="${packages[*]}"

give_up() {
  echo "alibi: missing: $wanted; $1" >&2
  exit 1
}
command -v apt-get >/dev/null || give_up "there is no apt-get here to install it with (the names are Debian's)."
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || give_up "as root: apt-get install $wanted"
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
  "${as_root[@]}" true 2>/dev/null || give_up "as root: apt-get install $wanted"
fi

echo "Installing $wanted"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}
apt -qq update # fails where one of many sources is away; what counts is whether the install works
apt -y --no-install-recommends install "${packages[@]}" ||
  give_up "apt-get could not install it ($(grep '^E:' "$log" | head -n 1 | cut -c1-200))."
find_missing
wanted="${packages[*]-}"
[ ${#packages[@]} -eq 0 ] || give_up "installed, but still not found."
