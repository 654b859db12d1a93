#include "runtime/base/nearest.h"

#include <doctest/doctest.h>

#include <string>

namespace paceline {
namespace {

constexpr std::string_view kNames[] = {"units", "filters", "kernel", "stride"};

}  // namespace

TEST_SUITE_BEGIN("base/nearest");

TEST_CASE("nearest_name: one edit is found, be it a letter more, less, other or swapped") {
  CHECK(nearest_name("unit", kNames) == "units");
  CHECK(nearest_name("kernels", kNames) == "kernel");
  CHECK(nearest_name("filterz", kNames) == "filters");
  CHECK(nearest_name("stirde", kNames) == "stride");
  CHECK(nearest_name("units", kNames) == "units");
}

TEST_CASE("nearest_name: nothing is suggested for a name that is far from all, or without names") {
  CHECK(nearest_name("activation", kNames).empty());
  CHECK(nearest_name("", kNames).empty());
  CHECK(nearest_name("units", {}).empty());
  CHECK(nearest_name(std::string(100'000, 'x'), kNames).empty());
}

TEST_CASE("suggest_name: the nearest name, else all of them") {
  CHECK(suggest_name("unit", kNames) == "; did you mean 'units'?");
  CHECK(suggest_name("activation", kNames) == "; known: units, filters, kernel, stride");
  CHECK(suggest_name("unit", {}).empty());
}

TEST_SUITE_END();

}  // namespace paceline
