#!/usr/bin/env bash
# `mpiexec -n N alibi train`: the same bits from run to run, the losses of one rank, one sentence where something
# fails, and a training that was interrupted, or lost a rank, goes on with another number of ranks.
# usage: check_train.sh ALIBI MPIEXEC [FLAGS]
set -u
alibi=$1
shift
launch=("$@")
bad=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
for i in $(seq 1 3000); do echo "$i: and there was evening and there was morning $((i * 7919 % 1000))"; done >text
options=(train --tokenizer bytes --layers 1 --width 32 --heads 2 --train-length 32 --batch-tokens 224 --quiet text)

say() { echo "$1:"; tail -n 20 "$folder/log"; bad=1; }
train() { # RANKS OUT OPTIONS...: sets code
  local ranks=$1 out=$2
  shift 2
  timeout 100 "${launch[@]}" "$ranks" "$alibi" "${options[@]}" --out "$out" "$@" >log 2>&1 </dev/null
  code=$?
}
alone() { # OUT OPTIONS...: sets code
  local out=$1
  shift
  "$alibi" "${options[@]}" --out "$out" "$@" >log 2>&1 </dev/null
  code=$?
}
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([0-9.]*\).*/\1 \2/p' "$1/log.jsonl"; }
near() { # two lists of losses, equal to 1e-3
  paste <(losses "$1") <(losses "$2") |
    awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 1e-6 * $2 ^ 2 { bad = 1 } END { exit bad || NR < 20 }'
}

more=(--steps 20 --evaluate-every 10 --sample-every 10 --sample-tokens 4)
alone one "${more[@]}"
[ $code -eq 0 ] || say "one rank: expected exit code 0, found $code"
for ranks in 2 3; do
  train $ranks first$ranks "${more[@]}"
  [ $code -eq 0 ] || say "$ranks ranks: expected exit code 0, found $code"
  [ "$(grep -c 'perplexity' log)" -eq 1 ] || say "$ranks ranks: expected one result"
  train $ranks second$ranks "${more[@]}"
  cmp first$ranks/model.safetensors second$ranks/model.safetensors ||
    say "$ranks ranks: other bits in the second run"
  near one first$ranks || say "$ranks ranks: other losses than on one rank"
done

# Sequences cut among ranks: the same losses, and a run of whole sequences goes on so.
short=("${options[@]}")
options=(train --tokenizer bytes --layers 1 --width 32 --heads 2 --train-length 112 --batch-tokens 224 --quiet
         text)
train 2 cut --sequence-ranks 2 --steps 20
[ $code -eq 0 ] || say "sequences on 2 ranks: expected exit code 0, found $code"
alone whole --steps 20
near whole cut || say "sequences on 2 ranks: other losses than on one rank"
train 3 none --sequence-ranks 2
[ $code -eq 2 ] && grep -q -- '--sequence-ranks 2: expected a number that divides the 3 ranks' log ||
  say "3 ranks: expected a refusal of 2"
alone none --sequence-ranks 2
[ $code -eq 2 ] && grep -q -- '--sequence-ranks 2: expected as many processes' log ||
  say "one rank: expected a refusal of 2"
options=("${short[@]}")

train 2 none nofile
[ $code -eq 3 ] || say "no such file: expected exit code 3, found $code"
[ "$(grep -c 'nofile: cannot open' log)" -eq 1 ] || say "no such file: expected one sentence"
[ "$(grep -c '^alibi:' log)" -eq 1 ] || say "no such file: expected one rank to speak"

# A rank dies: the launcher ends the others; from what was saved go on three ranks, then, interrupted, one.
long=(--steps 100000 --checkpoint-every 10)
checkpoints() { ls "$1/checkpoints" 2>/dev/null | grep -c '^step-[0-9]*$'; }
wait_for_checkpoint() {
  for i in $(seq 1 400); do [ "$(checkpoints run)" -gt "$1" ] && return; sleep 0.1; done
  say "no checkpoint"
}
"${launch[@]}" 2 "$alibi" "${options[@]}" --out "$folder/run" "${long[@]}" >log 2>&1 </dev/null &
launcher=$!
wait_for_checkpoint 1
rank=$(pgrep -f "^$alibi train .*--out $folder/run --steps 100000" | tail -n 1)
kill -KILL "$rank"
wait $launcher
[ $? -ne 0 ] || say "a rank was killed: expected a failure"
[ "$(checkpoints run)" -ge 1 ] || say "a rank was killed: expected a checkpoint"
before=$(ls run/checkpoints 2>/dev/null | grep '^step-[0-9]*$' | tail -n 1)
"${launch[@]}" 3 "$alibi" "${options[@]}" --out "$folder/run" "${long[@]}" --resume >log 2>&1 </dev/null &
launcher=$!
for i in $(seq 1 400); do
  [ "$(ls run/checkpoints 2>/dev/null | grep '^step-[0-9]*$' | tail -n 1)" != "$before" ] && break
  sleep 0.1
done
rank=$(pgrep -f "^$alibi train .*--out $folder/run --steps 100000" | tail -n 1)
kill -TERM "$rank" # one rank is told, all stop
wait $launcher
code=$?
[ $code -eq 130 ] || say "interrupted: expected exit code 130, found $code"
[ "$(grep -c 'interrupted; .*run holds the model as it stood at step' log)" -eq 1 ] ||
  say "interrupted: expected one sentence"
reached=$(ls run/checkpoints 2>/dev/null | grep '^step-[0-9]*$' | tail -n 1)
[[ $reached > $before ]] || say "the resumed training did not go on from $before"
timeout --signal=INT --kill-after=60 4 "$alibi" "${options[@]}" --out "$folder/run" "${long[@]}" --resume \
  >log 2>&1 </dev/null
[[ $(ls run/checkpoints 2>/dev/null | grep '^step-[0-9]*$' | tail -n 1) > $reached ]] ||
  say "one rank did not go on from $reached"
exit $bad
