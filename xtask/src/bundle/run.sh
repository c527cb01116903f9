#!/bin/sh
# Checks and measures this bundle on a machine with an NVIDIA GPU. Needs a shell, coreutils, tar and the driver; cuBLAS
# and cuSPARSE are taken from a Python environment or a toolkit if they are there.
#
#   sh run.sh [STAGE...]     (no word: all of them, in this order)
#
#   solve      a small cover on the GPU, which must be the host's
#   tests      every test that opens a GPU, in a process of its own, eight at a time
#   jobs       the commands that take --device, beside the host's answers
#   bench      what the kernels reach, the most wanted numbers first, and the same work in PyTorch
#   harness    cuda/harness.cu, built here by nvcc for each file of kernels that it knows
#   profile    one launch of the hottest kernels under Nsight Compute
#   memcheck, racecheck   the tests under compute-sanitizer
#
# A stage begins nothing new once its time is over (BUDGET seconds, default 500); what it left out is listed. Writes
# summary.txt (failures first), host.txt, metrics.txt and logs.tar to $OUT (default: ./results).
# DEVICE=emulated rehearses all but the tools of NVIDIA where there is no GPU, on small inputs.
# Exit code: 0 all passed; 1 something failed or was left out; 2 wrong usage; 3 no GPU can be used here.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
out=${OUT:-./results}
device=${DEVICE:-cuda}
budget=${BUDGET:-500}
stages=${*:-solve tests jobs bench harness profile memcheck racecheck}
for stage in $stages; do
  case $stage in
    solve | tests | jobs | bench | harness | profile | memcheck | racecheck) ;;
    *)
      echo "run.sh: no stage $stage: solve, tests, jobs, bench, harness, profile, memcheck, racecheck" >&2
      exit 2
      ;;
  esac
done
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd) || exit 1
links=$(mktemp -d) || exit 1
logs=$links/logs
mkdir "$logs" || exit 1
trap 'rm -rf "$links"' EXIT

# The libraries of release 13, each folder once. A folder with cuBLAS 12 is of another release.
found=
add_folder() {
  if [ -e "$1/libcublas.so.12" ]; then return; fi
  for library in libcuda.so.1 libcublas.so.13 libcusparse.so.12 libnccl.so.2; do
    if [ -e "$1/$library" ]; then
      case ":$found:" in *":$1:"*) ;; *) found="$found:$1" ;; esac
      # The loader asks for libnccl.so; the Python package has only libnccl.so.2.
      if [ "$library" = libnccl.so.2 ] && [ ! -e "$1/libnccl.so" ]; then
        ln -sf "$1/libnccl.so.2" "$links/libnccl.so"
      fi
    fi
  done
}

find_libraries() {
  for folder in "${CUDA_HOME:-/nowhere}/lib64" "${CUDA_HOME:-/nowhere}/lib"; do add_folder "$folder"; done
  for python in python3 python; do
    command -v "$python" > /dev/null 2>&1 || continue
    "$python" -c 'import sys; print("\n".join(sys.path))' > "$links/python" 2> /dev/null
    while IFS= read -r folder; do
      for inner in "${folder:-/nowhere}"/nvidia/*/lib; do add_folder "$inner"; done
    done < "$links/python"
  done
  for folder in /usr/local/cuda/lib64 /usr/local/cuda-13*/lib64 /usr/lib/wsl/lib /usr/local/nvidia/lib64 \
    /usr/lib64-nvidia; do
    add_folder "$folder"
  done
}

# The program of the toolkit with this name; the name alone where it is not found.
find_tool() {
  for folder in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda /usr/local/cuda-13*; do
    if [ -x "$folder/bin/$1" ]; then echo "$folder/bin/$1"; return; fi
  done
  command -v "$1" 2> /dev/null || echo "$1"
}

find_libraries
LD_LIBRARY_PATH=$links$found${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# Beside a GPU the host alone is the reference of the tests.
emulator=none as_bench=--bench
if [ "$device" = emulated ]; then emulator=$here/libshardgraph_emulated.so as_bench=--test; fi
SHARDGRAPH_EMULATED_LIBRARY=$emulator
NCCL_MULTI_RANK_GPU_ENABLE=1
export SHARDGRAPH_EMULATED_LIBRARY NCCL_MULTI_RANK_GPU_ENABLE

# Of /proc only lines are taken that name no person and no program.
describe() {
  cat "$here/revision.txt"
  echo "hostname $(cat /proc/sys/kernel/hostname)"
  echo "system $(uname -s) $(uname -r)"
  echo "cores $(nproc)"
  while read -r key second value; do
    if [ "$key $second" = "model name" ]; then echo "cpu ${value#: }"; break; fi
  done < /proc/cpuinfo
  while read -r key value unit; do
    if [ "$key" = MemTotal: ]; then echo "memory_kib $value"; fi
  done < /proc/meminfo
  echo "libraries $LD_LIBRARY_PATH"
}

# A tail in the shell alone: the last lines of a log.
last_lines() {
  a='' b='' c=''
  while IFS= read -r line || [ -n "$line" ]; do a=$b b=$c c=$line; done < "$1"
  for line in "$a" "$b" "$c"; do if [ -n "$line" ]; then echo "    $line"; fi; done
}

now() { date +%s; }
n_passed=0 n_failed=0 n_left_out=0 end=0
: > "$links/failed" ; : > "$links/other" ; : > "$links/metrics"

passed() { n_passed=$((n_passed + 1)); echo "passed: $*" >> "$links/other"; }
failed() {
  n_failed=$((n_failed + 1))
  echo "FAILED: $*"
  echo "FAILED: $*" >> "$links/failed"
}
left_out() { n_left_out=$((n_left_out + 1)); echo "LEFT OUT: $*" >> "$links/other"; }
skipped() { echo "SKIPPED: $*"; echo "SKIPPED: $*" >> "$links/other"; }

# Whether the stage has time; counts what it leaves out.
has_time() {
  if [ "$(now)" -lt "$end" ]; then return 0; fi
  left_out "$1: the stage's $budget s are over"
  return 1
}

# start NAME SECONDS COMMAND...: runs it with a limit; its output is NAME.log, its exit code NAME.code.
start() {
  log=$1 limit=$2
  shift 2
  timeout "$limit" "$@" > "$logs/$log.log" 2>&1
  echo $? > "$links/$log.code"
}

# judge NAME: takes the metrics of a log, and says how it ended. A test that skips the GPU is a failure here.
judge() {
  read -r code < "$links/$1.code" || code=1
  reason=
  while IFS= read -r line; do
    case $line in
      METRIC:* | INFO:*) echo "$line" >> "$links/metrics" ;;
      SKIPPED:*"\`$device"*) code=1 reason=" (the device was skipped: $line)" ;;
    esac
  done < "$logs/$1.log"
  if [ "$code" -eq 124 ]; then reason=" (its time is over)"; fi
  if [ "$code" -eq 0 ]; then passed "$1"; return 0; fi
  failed "$1, exit code $code$reason, see $1.log"
  last_lines "$logs/$1.log"
  return 1
}

check() {
  has_time "$1" || return 1
  start "$@"
  judge "$1"
}

# The tests of all programs, each in a process: a fault of one poisons no other. `prefix` is a tool before the program.
each_test() {
  kind=$1 at_once=$2 seconds=$3 prefix=$4
  running=0 names=
  for binary in "$here"/tests/*; do
    "$binary" --list --format terse > "$links/tests" 2> /dev/null
    while IFS= read -r line; do
      case $line in *': test') test=${line%': test'} ;; *) continue ;; esac
      name=$kind-${binary##*/}-$(echo "$test" | tr -c 'a-zA-Z0-9\n' '_')
      has_time "$name" || continue
      # shellcheck disable=SC2086
      start "$name" "$seconds" env SHARDGRAPH_EMULATED_LIBRARY="$emulator" $prefix "$binary" --exact "$test" \
        --show-output --test-threads 1 &
      names="$names $name" running=$((running + 1))
      if [ "$running" -eq "$at_once" ]; then
        wait
        for name in $names; do judge "$name"; done
        running=0 names=
      fi
    done < "$links/tests"
  done
  wait
  for name in $names; do judge "$name"; done
}

sanitize() {
  sanitizer=$(find_tool compute-sanitizer)
  if ! command -v "$sanitizer" > /dev/null 2>&1; then skipped "$1: no compute-sanitizer"; return; fi
  # Small sizes: each access costs a hundred times as much here.
  PROPTEST_CASES=4
  export PROPTEST_CASES
  each_test "$1" 4 120 "$sanitizer --tool $1 --error-exitcode 9"
}

program=$here/shardgraph

# same NAME FILE COMMAND...: the command writes the same file on the device as on the host.
same() {
  name=$1 file=$2
  shift 2
  for where in host "$device"; do
    mkdir -p "$links/$where"
    check "jobs-$name-$where" 120 "$program" "$@" --device "$where" --out "$links/$where/$file" || return 1
  done
  if [ -s "$links/host/$file" ] && [ "$(cat "$links/host/$file")" = "$(cat "$links/$device/$file")" ]; then
    passed "jobs-$name: as the host's"
  else
    failed "jobs-$name: other than the host's"
    for where in host "$device"; do cat "$links/$where/$file" > "$logs/jobs-$name-$where.$file"; done
  fi
}

jobs() {
  if [ "$device" = cuda ]; then
    dense=er:3000:0.15 sparse=ba:20000:4 small=er:1000:0.05 blocks=sbm:4000:20:0.1:0.002 steps=200 agent_steps=5000
    relations=ba-rel:200000:2.5:100 place_steps=10
  else
    dense=er:120:0.15 sparse=ba:200:4 small=er:60:0.1 blocks=sbm:60:3:0.5:0.02 steps=2 agent_steps=300
    relations=ba-rel:200:2.5:5 place_steps=1
  fi
  same solve-bits cover solve "$dense" --method policy --quiet
  same solve-lists cover solve "$sparse" --method policy --quiet
  same solve-general cover solve "$small" --method policy --model mvc-three-layers --quiet
  same solve-ranks cover solve "$small" --method policy --model mvc-three-layers --ranks 2 --quiet
  for precision in fp32 fp16; do
    for mode in deterministic hogwild; do
      check "jobs-embed-$precision-$mode" 240 "$program" embed eval "$blocks" --preset line --dim 32 --epochs 2 \
        --precision $precision --mode $mode --device "$device" --format json
    done
  done
  check jobs-embed-host 240 "$program" embed eval "$blocks" --preset line --dim 32 --epochs 2 --device host \
    --format json
  if [ "$device" != cuda ] || [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
    check jobs-embed-ranks 240 "$program" embed eval "$blocks" --preset line --dim 32 --epochs 2 --ranks 2 \
      --device "$device" --format json
  else
    skipped "jobs-embed-ranks: one card"
  fi
  check jobs-rgcn-ranks 240 "$program" rgcn train "$relations" --preset am --epochs 20 --ranks 2 --device "$device" \
    --format json
  check jobs-train 240 "$program" train --steps $steps --device "$device" --run "$links/train"
  check jobs-agent 240 "$program" agent train cartpole-dqn --steps $agent_steps --device "$device"
  for where in host "$device"; do
    check "jobs-rgcn-bases-$where" 240 "$program" rgcn train "$relations" --preset am --epochs 20 --device "$where" \
      --format json
    check "jobs-rgcn-pairs-$where" 240 "$program" rgcn train "$relations" --preset aifb --epochs 20 --device "$where" \
      --format json
    check "jobs-rgcn-vectors-$where" 240 "$program" rgcn train "$relations" --input-dim 32 --bases 30 --epochs 20 \
      --device "$where" --format json
    check "jobs-place-$where" 240 "$program" place costgraph:1 --devices 2 --model runtime --device "$where" \
      --format json
  done
  check jobs-place-train 240 "$program" place train --preset synthetic --steps $place_steps --device "$device" \
    --run "$links/place"
}

# Sections of the bench, the most wanted first; each in a process.
bench() {
  for section in cover sgns sparse dense rows; do
    check "bench-$section" 150 "$here/bench-gpu" "$as_bench" "$section"
  done
  check bench-policy 150 "$here/bench-gpu_policy" "$as_bench"
  # The same work in PyTorch, where there is one that finds the GPU.
  if [ ! -e "$here/peer.py" ] || ! command -v python3 > /dev/null 2>&1 ||
    ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' > /dev/null 2>&1; then
    skipped "peer: no PyTorch that finds the GPU"
    return
  fi
  check peer-torch 120 python3 "$here/peer.py"
}

# What a kernel's author does where there is a GPU and no Rust.
harness() {
  if [ "$device" = emulated ]; then
    compiler="c++ -x c++ -DHARNESS_EMULATED" libraries=-ldl library=$emulator
  else
    compiler=$(find_tool nvcc) libraries=-arch=native library=
  fi
  if ! command -v "${compiler%% *}" > /dev/null 2>&1; then skipped "harness: no ${compiler%% *}"; return; fi
  for case in OPTIMISER SPARSE SGNS; do
    built=$links/harness-$case
    # shellcheck disable=SC2086
    check "harness-build-$case" 120 $compiler -std=c++17 -O3 -I"$here/cuda" "-DHARNESS_$case" -o "$built" \
      "$here/cuda/harness.cu" $libraries || continue
    # shellcheck disable=SC2086
    check "harness-$case" 90 "$built" $library
  done
}

profile() {
  if ! command -v ncu > /dev/null 2>&1; then skipped "profile: no Nsight Compute (ncu)"; return; fi
  for kernel in sgns sparse_csr sparse_bits score_select residual_remove; do
    section=sparse
    case $kernel in sgns) section=sgns ;; score_select | residual_remove) section=cover ;; esac
    check "profile-$kernel" 120 ncu --set full --kernel-name "regex:^$kernel" --launch-skip 3 --launch-count 1 \
      "$here/bench-gpu" --bench "$section"
  done
}

finish() {
  {
    while IFS= read -r line; do echo "$line"; done < "$links/failed"
    echo "run.sh: $n_passed passed, $n_failed failed, $n_left_out left out"
    while IFS= read -r line; do echo "$line"; done < "$links/other"
  } > "$out/summary.txt"
  cat "$links/metrics" > "$out/metrics.txt"
  if ! tar -C "$links" -cf "$out/logs.tar" logs; then echo "run.sh: no logs.tar: tar failed" >&2; fi
  echo "run.sh: $n_passed passed, $n_failed failed, $n_left_out left out"
}

describe > "$out/host.txt" 2> /dev/null
if command -v nvidia-smi > /dev/null 2>&1; then nvidia-smi -q > "$logs/nvidia-smi.log" 2>&1; fi

# A small verified answer from the device says whether there is one; without one the program ends with 3 and a sentence.
end=$(($(now) + budget))
start solve 60 "$program" solve karate --method policy --device "$device"
judge solve
if [ "$code" -eq 3 ]; then
  last_lines "$logs/solve.log" >&2
  finish
  echo "run.sh: no GPU can be used here"
  exit 3
fi
for stage in $stages; do
  begin=$(now)
  end=$((begin + budget))
  case $stage in
    solve) ;;
    tests) each_test tests 8 60 '' ;;
    memcheck | racecheck) sanitize "$stage" ;;
    *) $stage ;;
  esac
  echo "run.sh: $stage took $(($(now) - begin)) s"
done
finish
[ "$n_failed" -eq 0 ] && [ "$n_left_out" -eq 0 ]
