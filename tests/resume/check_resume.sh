#!/usr/bin/env bash
# A training that is stopped, in every way there is, and goes on: the model that comes of it is, to the byte, that
# of a training that was never stopped.  Killed at random moments, ended by signals, with damaged checkpoints, with
# a full disk, with other numbers of threads, across the ends of epochs and with accumulation.
# usage: check_resume.sh ALIBI [KILLS [SEED]]
set -u
alibi=$1 kills=${2:-50} seed=${3:-$(date +%s)}
RANDOM=$((seed % 32768))
echo "seed $seed, $kills kills"
# In memory where there is such a place: the time that a disk takes is not what is tested.
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OMP_WAIT_POLICY=passive
failures=0

# 80 steps of 64 tokens read a text of 1893 bytes 2.8 times; each step is made of two parts.
seq 1 500 >text
cat >settings.json <<'END'
{"tokenizer": "bytes", "layers": 2, "width": 32, "heads": 4, "train_length": 16, "batch_tokens": 64,
 "micro_tokens": 32, "steps": 80, "dropout": 0.1, "learning_rate": 0.01, "evaluate_every": 20,
 "checkpoint_every": 3, "texts": ["text"]}
END
# OUT OPTIONS...: goes on where there is something to go on with.  `go` takes this shell's place, so that in the
# background $! is the training itself.
go() {
  local out=$1
  shift
  exec "$alibi" train --resume --out "$out" --config settings.json "$@"
}
run() { (go "$@"); }

complain() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
# OUT WHAT [STRAIGHT]
same() {
  cmp -s "$1/model.safetensors" "${3:-straight}/model.safetensors" ||
    complain "$2: another model than without a stop"
}
# Losses of every step, once each, those of the training without a stop.
losses() { grep -o '"step":[0-9]*,"loss":[^,]*' "$1/log.jsonl"; }
same_log() {
  losses "$1" | cmp -s - <(losses "${3:-straight}") || complain "$2: another log of losses than without a stop"
}
newest() { find "$1/checkpoints" -maxdepth 1 -name 'step-*[0-9]' | LC_ALL=C sort | tail -n 1; }

now() { date +%s%N; }
began=$(now)
run straight --threads 1 >out 2>err || { cat err; exit 1; }
taken=$((($(now) - began) / 1000000)) # ms
[ "$(losses straight | wc -l)" -eq 80 ] || complain "the log has not a line for each step"
[ ! -e straight/checkpoints ] || complain "a finished training left checkpoints"
run twothreads --threads 2 >out 2>err && same twothreads "two threads"

# ---- SIGKILL ----
# COUNT OUT STRAIGHT: kills at random moments until there were so many, going on each time, to the end.
kill_often() {
  local wanted=$1 out=$2 straight=$3 killed=0 finished=0 rounds=0 pid
  while [ $killed -lt "$wanted" ] && [ $rounds -lt $((20 * wanted)) ]; do
    rounds=$((rounds + 1))
    go "$out" --threads $((1 + RANDOM % 2)) >out 2>err &
    pid=$!
    sleep "$(printf '%d.%03d' $((RANDOM * taken / 32768 / 1000)) $((RANDOM * taken / 32768 % 1000)))"
    if kill -KILL $pid 2>/dev/null; then
      wait $pid 2>/dev/null
      [ $? -eq 137 ] && killed=$((killed + 1))
    fi
    wait $pid 2>/dev/null
    grep -qE 'warning|passed over' err && complain "$out: after a kill: $(cat err)"
    if [ -e "$out/train.json" ] && grep -q '"finished": true' "$out/train.json"; then
      run "$out" >out 2>err || complain "$out: after a kill at the end: $(cat err)"
      same "$out" "$out, killed" "$straight"
      same_log "$out" "$out, killed" "$straight"
      finished=$((finished + 1))
      rm -rf "$out"
    fi
  done
  run "$out" --threads 1 >out 2>err || complain "$out: after $killed kills: $(tail -n 1 err)"
  same "$out" "$out, killed $killed times" "$straight"
  same_log "$out" "$out, killed $killed times" "$straight"
  echo "$out: killed $killed times in $rounds tries, $((finished + 1)) trainings to their end" \
       "($taken ms without a stop)"
  [ $killed -ge "$wanted" ] || complain "$out: killed only $killed times"
}
kill_often "$kills" killed straight

# Other ways to train: shards of several sources, documents apart, the guard of spikes; a trained model at longer
# sequences, shorter ones first, under another schedule.
variant() { # NAME: settings.json is there
  began=$(now)
  run "$1-straight" --threads 1 >out 2>err || complain "$1: $(cat err)"
  taken=$((($(now) - began) / 1000000))
  kill_often $((kills / 10 + 2)) "$1" "$1-straight"
}
cp settings.json first.json
"$alibi" data build --quiet --tokenizer bytes --out one text >out 2>err || complain "data build: $(cat err)"
seq 501 900 | tr '1234567890' 'abcdefghij' >other
"$alibi" data build --quiet --tokenizer bytes --out two other text >out 2>err || complain "data build: $(cat err)"
cat >settings.json <<'END'
{"position": "rope", "layers": 1, "width": 32, "heads": 4, "train_length": 16, "batch_tokens": 64, "steps": 60,
 "mix": [2, 1], "documents": "apart", "spike_limit": 2, "schedule": "warmup-stable-decay", "checkpoint_every": 3,
 "texts": ["one", "two"]}
END
variant shards
cat >settings.json <<'END'
{"from": "shards-straight", "train_length": 32, "length_schedule": "8:20,16:20", "rope_base": 20000,
 "batch_tokens": 64, "steps": 60, "schedule": "inverse-sqrt", "order": "random", "recompute": true,
 "z_loss": 0.001, "checkpoint_every": 3, "evaluate_every": 10, "patience": 50, "texts": ["two"]}
END
variant longer
cp first.json settings.json

# ---- signals that save ----
for signal in INT TERM INT TERM; do
  rm -rf signal
  go signal --checkpoint-every 0 --threads 1 >out 2>err &
  pid=$!
  for _ in $(seq 1 200); do
    [ -s signal/log.jsonl ] && break
    sleep 0.01
  done
  kill -$signal $pid
  wait $pid
  code=$?
  if [ $code -eq 130 ]; then
    grep -q 'resume goes on' err || complain "SIG$signal: no word of --resume: $(cat err)"
    [ -n "$(newest signal)" ] || complain "SIG$signal saved no checkpoint"
  elif [ $code -ne 0 ]; then
    complain "SIG$signal: exit code $code: $(cat err)"
  fi
  run signal --threads 1 >out 2>err || complain "after SIG$signal: $(cat err)"
  same signal "SIG$signal"
  same_log signal "SIG$signal"
done

# ---- a training in the middle, to be damaged ----
rm -rf middle
go middle --threads 1 >out 2>err &
pid=$!
for _ in $(seq 1 500); do
  [ "$(find middle/checkpoints -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | wc -l)" -ge 2 ] && break
  sleep 0.01
done
kill -KILL $pid
wait $pid 2>/dev/null
[ "$(find middle/checkpoints -maxdepth 1 -name 'step-*[0-9]' | wc -l)" -ge 2 ] || complain "no two checkpoints"

damage() { # WHAT COMMAND: with $checkpoint
  rm -rf damaged
  cp -r middle damaged
  checkpoint=$(newest damaged)
  eval "$2"
  run damaged --threads 1 --keep-checkpoints 1 >out 2>err || complain "$1: $(cat err)"
  grep -q "alibi: warning: .*$(basename "$checkpoint").*passed over" err || complain "$1: not said: $(cat err)"
  grep -q 'going on after step' err || complain "$1: the one before was not used: $(cat err)"
  same damaged "$1"
  same_log damaged "$1"
}
damage "a truncated model" 'truncate -s 1000 $checkpoint/model.safetensors'
damage "a flipped bit of the moments" \
       'printf "\377" | dd of=$checkpoint/optimiser.safetensors bs=1 seek=5000 conv=notrunc status=none'
damage "no state" 'rm $checkpoint/state.json'
damage "a state that is no JSON" 'truncate -s 100 $checkpoint/state.json'
damage "no configuration" 'rm $checkpoint/config.json'
rm -rf damaged
cp -r middle damaged
find damaged/checkpoints -name state.json -exec truncate -s 10 {} +
run damaged >out 2>err
[ $? -eq 3 ] || complain "no whole checkpoint: exit code"
grep -q 'expected a checkpoint that is whole, found none' err || complain "no whole checkpoint: $(cat err)"

# ---- a full disk: files may not grow beyond so many KiB ----
limited() { # KIB OUT
  (
    ulimit -f "$1"
    run "$2" --threads 1 >out 2>err
  )
}
rm -rf full
cp -r middle full
before=$(newest full)
# The moments have 230 KiB, the model 115.
limited 140 full || complain "checkpoints that cannot be saved: exit code $?: $(cat err)"
grep -q 'could not be saved, the training goes on' err ||
  complain "checkpoints that cannot be saved: not said: $(cat err)"
same full "checkpoints that cannot be saved"
rm -rf full
cp -r middle full
limited 60 full
[ $? -eq 1 ] || complain "a model that cannot be saved: exit code"
[ -d "$before" ] || [ -d "full/checkpoints/$(basename "$before")" ] || complain "a full disk cost a checkpoint"
tail -n 1 err | grep -q '^alibi: .*model.safetensors' || complain "a model that cannot be saved: $(cat err)"
run full --threads 1 >out 2>err || complain "after a full disk: $(cat err)"
same full "after a full disk"
same_log full "after a full disk"

# ---- two at once ----
rm -rf locked
go locked --steps 1000000 --threads 1 >out 2>err &
pid=$!
for _ in $(seq 1 500); do
  [ -s locked/log.jsonl ] && break
  sleep 0.01
done
run locked --steps 1000000 >out2 2>err2
[ $? -eq 1 ] && grep -q 'another process is at work there' err2 ||
  complain "two trainings in one directory: $(cat err2)"
kill -KILL $pid
wait $pid 2>/dev/null

[ $failures -eq 0 ] && echo passed
exit $((failures > 0))
