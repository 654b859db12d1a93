#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/seed.h"

namespace paceline::test {

namespace {
uint64_t chosen_seed = 20260901;
}

uint64_t seed() { return chosen_seed; }

}  // namespace paceline::test

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--seed=", 7) == 0)
      paceline::test::chosen_seed = std::strtoull(argv[i] + 7, nullptr, 10);
  std::printf("seed %llu (repeat with --seed=N)\n",
              static_cast<unsigned long long>(paceline::test::chosen_seed));
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);
  return context.run();
}
