#!/usr/bin/env bash
# ./dev bench footprint: what the static worker costs on each target. Prints, measured now: bytes of the stripped
# program, that it asks for no shared library, the peak memory of a worker that waits for its server, the memory of
# workers that train a 784-128-10 net (with and without the rows that they hold), and what each archive brings into it
# (from the linker's map). docs/dependencies.md quotes these figures.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Peak resident kilobytes of a worker that has read its data and looks for a server that is not there.
printf 'a,b,label\n1,2,x\n3,4,y\n5,6,x\n' >"$scratch/rows.csv"
peak_kb() {
  local process peak
  "$@" tcp://127.0.0.1:1 --data "$scratch/rows.csv" --name footprint >"$scratch/log" 2>&1 &
  process=$!
  sleep 2
  peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$process/status" 2>/dev/null) || peak='stopped early'
  kill "$process" 2>/dev/null || true
  wait "$process" 2>/dev/null || true
  echo "$peak"
}

printf '%-6s %14s %-22s %-20s\n' target stripped_bytes linked peak_kB_waiting
for target in amd64:release:strip: arm64:arm64:aarch64-linux-gnu-strip:qemu-aarch64 \
  armhf:armhf:arm-linux-gnueabihf-strip:qemu-arm; do
  IFS=: read -r cpu preset strip emulator <<<"$target"
  program=build/$preset/runtime/worker/edge_worker
  if [ ! -x "$program" ]; then
    printf '%-6s not built: %s is missing\n' "$cpu" "$program"
    continue
  fi
  "$strip" -o "$scratch/$cpu" "$program"
  # A program that needs shared libraries or a loader says so in these two tables.
  linked=static
  if readelf -ld "$scratch/$cpu" | grep -qE 'INTERP|NEEDED'; then linked='DYNAMIC'; fi
  if [ -z "$emulator" ] && ldd "$scratch/$cpu" >/dev/null 2>&1; then linked='DYNAMIC'; fi
  printf '%-6s %14d %-22s %s%s\n' "$cpu" "$(stat -c %s "$scratch/$cpu")" "$linked" \
    "$(peak_kb ${emulator:+"$emulator"} "$scratch/$cpu")" "${emulator:+ (with $emulator)}"
done

# Each board of a short demo: its resident memory at the end, and that without its rows of 784 bytes. (The demo gives
# every board the whole file to pick its rows from, so the peak says nothing about a board with a file of its own.)
printf '\n%-8s %10s %9s %13s\n' training rss_kB rows_kB beside_rows_kB
build/release/server/edge_server demo --seconds 8 --out "$scratch/demo" >"$scratch/demo.log" 2>&1 &
demo=$!
declare -A resident
while kill -0 "$demo" 2>/dev/null; do
  for process in $(pgrep -P "$demo" edge_worker); do
    board=$(tr '\0' '\n' <"/proc/$process/cmdline" | grep -A1 -x -e --name | tail -n 1)
    kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$process/status")
    # One that has just ended has neither.
    [ -z "$board" ] || [ -z "$kb" ] || resident[$board]=$kb
  done
  sleep 0.2
done 2>/dev/null || true
wait "$demo"
for board in $(printf '%s\n' "${!resident[@]}" | sort); do
  kb=${resident[$board]}
  rows=$(awk '/training rows/ { for (i = 1; i < NF; ++i) if ($(i + 1) ~ /^(training|held)$/) sum += $i; print sum; exit }' \
    "$scratch/demo/paceline-$board.log")
  rows_kb=$((rows * 784 / 1024))
  printf '%-8s %10d %9d %13d\n' "$board" "$kb" "$rows_kb" $((kb - rows_kb))
done

map=build/release/edge_worker.map
[ -f "$map" ] || exit 0
printf '\nbytes of code and constants by origin (amd64, before stripping)\n'
awk '
  # A section contribution: " .text  0xADDRESS  0xSIZE  FILE", the name sometimes on a line of its own.
  /^ \.(text|rodata|data|bss|eh_frame)[^ ]*$/ { wanted = 1; next }
  { size = ""; }
  /^ \.(text|rodata|data|eh_frame)/ && NF >= 4 { size = $3; file = $4 }
  wanted && $1 ~ /^0x/ && NF >= 3 { size = $2; file = $3 }
  { wanted = 0 }
  size ~ /^0x/ {
    name = file
    if (match(name, /[^\/]*\.a\(/)) name = substr(name, RSTART, RLENGTH - 1)
    else if (name ~ /crt|\.o$/) name = (name ~ /CMakeFiles/) ? "edge_worker" : "start files"
    sum[name] += hex(size)
  }
  function hex(text,    i, value) {
    value = 0; text = tolower(substr(text, 3))
    for (i = 1; i <= length(text); ++i) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
    return value
  }
  END { for (name in sum) if (sum[name] > 0) printf "%9d %s\n", sum[name], name }' "$map" | sort -rn
