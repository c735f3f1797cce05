#!/usr/bin/env bash
# A rank that fails ends all: once said, with its exit code, and soon.
# usage: check_failures.sh FAIL_RANK MPIEXEC [FLAGS]
set -u
program=$1
shift
launch=("$@")
bad=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # HOW RANKS: sets code
  timeout 60 "${launch[@]}" "$2" "$program" "$1" >"$log" 2>&1 </dev/null
  code=$?
}
expect() { # WHAT CONDITION...
  local what=$1
  shift
  "$@" || { echo "$what (exit code $code):"; cat "$log"; bad=1; }
}

for ranks in 2 3; do
  run agreed $ranks
  expect "agreed, $ranks ranks: expected exit code 3" [ $code -eq 3 ]
  expect "agreed, $ranks ranks: expected one sentence" \
    [ "$(grep -c "fail_rank: rank $((ranks - 1)): a damaged shard" "$log")" -eq 1 ]
  run alone $ranks
  expect "alone, $ranks ranks: expected exit code 1" [ $code -eq 1 ]
  expect "alone, $ranks ranks: expected one sentence" \
    [ "$(grep -c "rank $((ranks - 1)): no memory" "$log")" -eq 1 ]
  run killed $ranks
  expect "killed, $ranks ranks: expected a failure, not a hang" [ $code -ne 0 -a $code -ne 124 ]
done

# A process of several that sees none of the others does not go on alone.
SLURM_STEP_NUM_TASKS=4 "$program" launcher >"$log" 2>&1
code=$?
expect "one of four that finds nobody: expected exit code 1" [ $code -eq 1 ]
expect "one of four that finds nobody: expected a sentence" \
  grep -q "the launcher started 4 ranks, but 1 found each other" "$log"
SLURM_STEP_NUM_TASKS=1 ALIBI_MPI_MODULE=/nowhere/alibi_mpi.so "$program" launcher >"$log" 2>&1
code=$?
expect "the batch script of a job is alone, and needs no module" [ $code -eq 0 ]
SLURM_STEP_NUM_TASKS=4 ALIBI_MPI_MODULE=/nowhere/alibi_mpi.so "$program" launcher >"$log" 2>&1
code=$?
expect "a module that is not there: expected a sentence" grep -q "MPI: cannot load /nowhere/alibi_mpi.so" "$log"
exit $bad
