// A short soak. By hand, for longer: ./dev soak --minutes 30.
#include "tests/faults/soak.h"

#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

using namespace paceline;
using namespace paceline::test;

TEST_SUITE("faults/soak") {
  TEST_CASE("twenty seconds of kills, power cuts, full disks and bad networks break no promise") {
    const TempFolder folder;
    SoakOptions options;
    options.edge_server = PACELINE_EDGE_SERVER;
    options.edge_worker = PACELINE_EDGE_WORKER;
    options.folder = folder.file("");
    options.seconds = 20;
    options.seed = seed();
    std::string faults;
    options.say = [&](const std::string& line) { faults += line + "\n"; };
    const SoakReport report = soak(options);
    INFO(faults);
    for (const std::string& reason : report.broken) FAIL_CHECK(reason);
    for (const std::string& reason : report.history.reasons) FAIL_CHECK(reason);
    CHECK(report.clean());
    CHECK(report.history.acknowledged > 0);
    CHECK(report.faults > 0);
    if (!report.no_power_cuts.empty())
      std::printf("no power cuts and no full disks: %s\n", report.no_power_cuts.c_str());
    std::printf("%s\n%llu faults, %llu updates acknowledged, longest restart %.2f s\n",
                report.run.c_str(), static_cast<unsigned long long>(report.faults),
                static_cast<unsigned long long>(report.history.acknowledged), report.restart_s_max);
  }
}
