// What a seed chooses for the run of its soak.
#pragma once

#include <iterator>
#include <string>

#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "tests/system/run_text.h"

namespace paceline::test {

struct SoakPlan {
  RunText run;
  std::string journal;
  bool waits_for_disk = true;

  explicit SoakPlan(Random* random) {
    const char* const paces[] = {"compat", "bsp", "asp", "ssp:3", "dsp"};
    run.pace = paces[static_cast<size_t>(random->below(std::size(paces)))];
    run.codec_up = random->below(2) == 0 ? "s1r" : "q8";
    run.codec_down = random->below(2) == 0 ? "s1r" : "q8";
    run.hidden = random->below(2) == 0 ? 16 : 512;
    run.exchange_deadline_ms = 2'000;
    journal = random->below(2) == 0 ? "round" : "payload";
    // What a journal of the mode round holds is there for two snapshots, and is looked at
    // meanwhile.
    const uint32_t often_ms = journal == "round" ? 3'000 : 200;
    run.checkpoint_ms = random->below(2) == 0 ? often_ms : 60'000;
    waits_for_disk = random->below(2) == 0;
  }
  std::string text() const {
    return run.text() + format_text("disk_full = \"%s\"\n", waits_for_disk ? "wait" : "go_on");
  }
  std::string words() const {
    return format_text(
        "pace %s, %s up, %s down, %u hidden units, journal %s, a snapshot every %u ms, "
        "disk_full %s",
        run.pace.c_str(), run.codec_up.c_str(), run.codec_down.c_str(), run.hidden, journal.c_str(),
        run.checkpoint_ms, waits_for_disk ? "wait" : "go_on");
  }
};

}  // namespace paceline::test
