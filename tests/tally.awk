# Reads ctest's Testing/Temporary/LastTest.log and prints "passed failed skipped", then one line per failed or
# skipped test. A doctest program counts with its test cases, any other program as one test.
#
# A test that cannot run says "skipped: REASON" and passes; with -v strict=1 that counts as a failure.
function number_before(text, word,    found) {
  if (!match(text, "[0-9]+ " word)) return 0
  found = substr(text, RSTART, RLENGTH)
  sub(/ .*/, "", found)
  return found + 0
}
/^[0-9]+\/[0-9]+ Testing: / { name = $3; cases = ""; skips = 0; good = 0; next }
/^\[doctest\] test cases:/ { cases = $0; next }
/^skipped: / { reason[++skips] = substr($0, 10); next }
/^Test Passed\.|^Test Pass Reason/ { good = 1; next }
/^".*" end time: / {
  passed_here = 1; failed_here = 0
  if (cases != "") {
    passed_here = number_before(cases, "passed")
    failed_here = number_before(cases, "failed")
    filtered = number_before(cases, "skipped")
    if (filtered > 0) { skipped += filtered; line[++lines] = "skipped  " name ": " filtered " cases did not run" }
  }
  if (!good && failed_here == 0) failed_here = 1
  if (!good && cases == "") passed_here = 0
  for (i = 1; i <= skips; ++i) {
    if (passed_here > 0) --passed_here
    if (strict) ++failed_here; else ++skipped
    line[++lines] = (strict ? "FAILED   " : "skipped  ") name ": " reason[i]
  }
  if (!good) line[++lines] = "FAILED   " name
  passed += passed_here; failed += failed_here
}
END {
  print passed + 0, failed + 0, skipped + 0
  for (i = 1; i <= lines; ++i) print line[i]
}
