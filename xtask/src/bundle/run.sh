#!/bin/sh
# Checks and measures this bundle on a machine with an NVIDIA GPU. Needs a shell, coreutils and the driver; cuBLAS and
# cuSPARSE are taken from a Python environment or a toolkit if they are there.
#
#   sh run.sh [tests] [memcheck] [racecheck] [bench]      (no word: all of them)
#
# Writes logs and metrics.txt to $OUT (default: ./results).
# Exit code: 0 all passed; 1 something failed; 2 wrong usage; 3 no GPU can be used here.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
out=${OUT:-./results}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd) || exit 1
n_failed=0
steps=${*:-tests memcheck racecheck bench}
for step in $steps; do
  case $step in
    tests | memcheck | racecheck | bench) ;;
    *) echo "run.sh: no step $step: tests, memcheck, racecheck, bench" >&2; exit 2 ;;
  esac
done

say() {
  echo "$*"
  echo "$*" >> "$out/summary.txt"
}

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

find_sanitizer() {
  for folder in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda /usr/local/cuda-13*; do
    if [ -x "$folder/bin/compute-sanitizer" ]; then echo "$folder/bin/compute-sanitizer"; return; fi
  done
  command -v compute-sanitizer 2> /dev/null
}

links=$(mktemp -d) || exit 1
trap 'rm -rf "$links"' EXIT
find_libraries
LD_LIBRARY_PATH=$links$found${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
SHARDGRAPH_EMULATED_LIBRARY=$here/libshardgraph_emulated.so
export SHARDGRAPH_EMULATED_LIBRARY

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

: > "$out/summary.txt"
: > "$out/metrics.txt"
describe > "$out/host.txt" 2> /dev/null
if command -v nvidia-smi > /dev/null 2>&1; then nvidia-smi -q > "$out/nvidia-smi.txt" 2>&1; fi

# A small verified answer from the GPU says whether there is one; without a GPU the program ends with 3 and a sentence.
"$here/shardgraph" solve karate --device cuda > "$out/first-solve.log" 2>&1
code=$?
if [ $code -ne 0 ]; then
  while IFS= read -r line; do echo "$line" >&2; done < "$out/first-solve.log"
  if [ $code -eq 3 ]; then say "run.sh: no GPU can be used here"; exit 3; fi
  say "FAILED: shardgraph solve karate --device cuda (exit code $code)"
  exit 1
fi
say "passed: shardgraph solve karate --device cuda"

# check NAME SECONDS COMMAND...: runs it with a time limit, its output goes to NAME.log. A test that skips the GPU is a
# failure here.
check() {
  name=$1 seconds=$2
  shift 2
  timeout "$seconds" "$@" > "$out/$name.log" 2>&1
  code=$?
  skipped=
  while IFS= read -r line; do
    case $line in
      METRIC:* | INFO:*) echo "$line" >> "$out/metrics.txt" ;;
      SKIPPED:*'`cuda'*) skipped=" (the GPU was skipped: $line)"; code=1 ;;
    esac
  done < "$out/$name.log"
  if [ $code -eq 0 ]; then
    say "passed: $name"
  else
    say "FAILED: $name, exit code $code$skipped, see $name.log"
    n_failed=$((n_failed + 1))
  fi
}

# Small sizes: each access costs a hundred times as much here.
sanitize() {
  sanitizer=$(find_sanitizer)
  if [ -z "$sanitizer" ]; then say "SKIPPED: $1: no compute-sanitizer"; return; fi
  for test in "$here"/tests/*; do
    check "$1-${test##*/}" 900 env PROPTEST_CASES=4 "$sanitizer" --tool "$1" --error-exitcode 9 \
      "$test" --test-threads 1
  done
}

# The same work in PyTorch, where there is one that finds the GPU.
peer() {
  if [ ! -e "$here/peer.py" ] || ! command -v python3 > /dev/null 2>&1 ||
    ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' > /dev/null 2>&1; then
    say "SKIPPED: peer: no PyTorch that finds the GPU"
    return
  fi
  check peer-torch 120 python3 "$here/peer.py"
}

for step in $steps; do
  case $step in
    tests)
      # Lets NCCL put several ranks on one GPU. Not under a sanitizer, which runs one kernel at a time: ranks wait for each other.
      for test in "$here"/tests/*; do
        check "test-${test##*/}" 900 env NCCL_MULTI_RANK_GPU_ENABLE=1 "$test" --show-output
      done
      ;;
    memcheck | racecheck) sanitize "$step" ;;
    bench)
      for bench in "$here"/bench-*; do
        if [ -x "$bench" ]; then check "${bench##*/}" 240 "$bench" --bench; fi
      done
      peer
      ;;
  esac
done
say "run.sh: $n_failed failed"
[ "$n_failed" -eq 0 ]
