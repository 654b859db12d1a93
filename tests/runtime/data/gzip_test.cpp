#include "runtime/data/gzip.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

using test::bytes_of;
using test::contains;

Bytes random_content(size_t size, Random& random) {
  Bytes content(size);
  // Few values, so that it packs well.
  for (auto& byte : content) byte = static_cast<std::byte>(random.below(5));
  return content;
}

std::string error_of(ByteSpan compressed) {
  const Result<Bytes> content = gunzip(compressed, 1 << 20);
  return content ? std::string() : content.error().to_string();
}

}  // namespace

TEST_SUITE("data/gzip") {
  TEST_CASE("gunzip: gives the content of one or several members of any length") {
    Random random(test::seed(), 1);
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{200'000}}) {
      const Bytes first = random_content(size, random);
      const Bytes second = random_content(size / 3, random);
      Bytes packed = test::gzip(first);
      CHECK(gunzip(packed, size).value() == first);
      const Bytes more = test::gzip(second);
      packed.insert(packed.end(), more.begin(), more.end());
      Bytes both = first;
      both.insert(both.end(), second.begin(), second.end());
      CHECK(gunzip(packed, both.size()).value() == both);
    }
  }

  TEST_CASE("gunzip: content of one byte above the bound is kResourceExhausted") {
    const Bytes packed = test::gzip(Bytes(100'000));
    const Result<Bytes> content = gunzip(packed, 99'999);
    REQUIRE_FALSE(content.has_value());
    CHECK(content.error().code() == Code::kResourceExhausted);
  }

  TEST_CASE("gunzip: every truncation is named as one") {
    Random random(test::seed(), 2);
    const Bytes packed = test::gzip(random_content(3000, random));
    for (size_t length = 2; length < packed.size(); ++length)
      CHECK(contains(error_of(ByteSpan(packed).first(length)), "cut off"));
  }

  TEST_CASE("gunzip: a changed byte in data or checksum is an error") {
    Random random(test::seed(), 3);
    const Bytes packed = test::gzip(random_content(3000, random));
    constexpr size_t kHeaderBytes = 10;
    for (size_t i = kHeaderBytes; i < packed.size(); ++i) {
      Bytes damaged = packed;
      damaged[i] ^= static_cast<std::byte>(1 + random.below(255));
      CHECK(error_of(damaged) != "");
    }
  }

  TEST_CASE("gunzip: other bytes after the end are an error that counts them") {
    Bytes packed = test::gzip(bytes_of("content"));
    packed.insert(packed.end(), 8, std::byte{'x'});
    CHECK(contains(error_of(packed), "8 bytes that are not gzip follow"));
  }
}

}  // namespace paceline
