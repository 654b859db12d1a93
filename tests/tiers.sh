# shellcheck shell=bash
# ./dev test: the tiers, what each builds and runs, and the sum. Sourced by ./dev.

all_tiers=(gcc tidy asan clang tsan arm64 armhf fleet fuzz demo speed)
portable='tests_unit tests_contract tests_golden'
passed=0 failed=0 skipped=0
summary=() named=()

# A tier is one line here: its name, the preset that builds it, what to build, and the test preset that chooses.
tier_gcc() { ctest_tier dev all gcc; }
tier_tidy() { ctest_tier dev "" tidy; }
tier_asan() { ctest_tier asan all asan; }
tier_clang() { ctest_tier clang all clang; }
tier_tsan() { ctest_tier tsan tests_threads tsan; }
tier_arm64() { ctest_tier arm64 "$portable edge_worker" arm64; }
tier_armhf() { ctest_tier armhf "$portable edge_worker" armhf; }
# Workers built for the boards join a server of this machine, through the emulators.
tier_fleet() {
  export PACELINE_WORKER_ARM64=$root/build/arm64/runtime/worker/edge_worker
  export PACELINE_WORKER_ARMHF=$root/build/armhf/runtime/worker/edge_worker
  configure_and_build arm64 edge_worker && configure_and_build armhf edge_worker &&
    ctest_tier dev "tests_fleet edge_server edge_worker" fleet
}
tier_fuzz() { ctest_tier fuzz fuzz fuzz; }
tier_demo() {
  configure_and_build release edge_server edge_worker &&
    timeout 300 build/release/server/edge_server demo --seconds 8 --out build/demo && tally="1 0 0"
}
# Alone on the machine, as far as that is up to the tests: codecs slower than they have to be fail.
tier_speed() {
  local rows=build/codec_gate.txt
  configure_and_build release edge_server || return
  timeout 180 build/release/server/edge_server bench codecs --gate >"$rows" || {
    cat "$rows"
    return 1
  }
  cat "$rows"
  tally="1 0 0"
  ! grep -q '^skipped: ' "$rows" || tally=$(printf '0 0 1\n%s' "$(sed -n 's/^skipped: /skipped  /p' "$rows")")
}

# ctest_tier PRESET "TARGET..." TEST_PRESET: leaves tests/tally.awk's lines in $tally.
ctest_tier() {
  local preset=$1 choice=$3 targets strict=0 result=0 log
  read -ra targets <<<"$2"
  log=build/$preset/Testing/Temporary/LastTest.log
  if [ ${#targets[@]} = 0 ]; then
    cmake --preset "$preset" || return
  else
    configure_and_build "$preset" "${targets[@]}" || return
  fi
  rm -f "$log"
  ctest --preset "$choice" || result=$?
  [ "${CI:-}" != true ] || strict=1
  tally=$(awk -v strict="$strict" -f tests/tally.awk "$log") || return
  return "$result"
}

run_tier() {
  local tier=$1 started=$SECONDS log=build/tier_$1.log result=0 tally='' counts line
  printf '%-6s ... ' "$tier"
  "tier_$tier" >"$log" 2>&1 || result=$?
  # What failed before any test ran is one failure; a failure that ctest saw is already counted.
  read -ra counts <<<"${tally:-0 0 0}"
  if [ "$result" != 0 ] && [ "${counts[1]}" = 0 ]; then counts[1]=1; fi
  passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
  line=$(printf '%-6s %5d passed, %d failed, %d skipped, %d s' "$tier" "${counts[@]:0:3}" $((SECONDS - started)))
  summary+=("$line")
  while read -r line; do [ -z "$line" ] || named+=("$tier: $line"); done < <(tail -n +2 <<<"$tally")
  printf '%s\n' "${summary[-1]#"$tier"}"
  if [ "${counts[1]}" != 0 ]; then
    printf -- '---- last lines of %s\n' "$log"
    tail -n 60 "$log"
    printf -- '----\n'
  fi
}

command_test() {
  local tier tiers=("$@") cpus=() started=$SECONDS
  [ ${#tiers[@]} -gt 0 ] || tiers=("${all_tiers[@]}")
  for tier in "${tiers[@]}"; do
    [[ " ${all_tiers[*]} " == *" $tier "* ]] || {
      echo "dev test: unknown tier '$tier'; there are: ${all_tiers[*]}" >&2
      exit 2
    }
  done
  stages=2
  mapfile -t cpus < <(printf '%s\n' "$(host_architecture)" arm64 armhf | sort -u)
  set_up "BUILD TEST $(cross_lists arm64 armhf)" "${cpus[@]}"
  mkdir -p build
  if [ ! -d "${PACELINE_TEST_DATA:-}" ]; then
    echo "test data: none (set PACELINE_TEST_DATA to its folder); tests that need it say so"
  fi
  for tier in "${tiers[@]}"; do run_tier "$tier"; done

  printf '\n'
  printf '%s\n' "${summary[@]}"
  [ ${#named[@]} = 0 ] || printf '%s\n' "${named[@]}"
  printf 'in %d s\n\n' $((SECONDS - started))
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" = 0 ]
}
