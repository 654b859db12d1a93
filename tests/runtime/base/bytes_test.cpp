#include "runtime/base/bytes.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

// What was written, kind by kind, so that it can be read in step.
struct Item {
  int kind = 0;
  uint64_t number = 0;
  std::string text;
};

void put(ByteWriter* out, const Item& item) {
  if (item.kind == 0) out->put(static_cast<uint8_t>(item.number));
  if (item.kind == 1) out->put(static_cast<uint32_t>(item.number));
  if (item.kind == 2) out->put(item.number);
  if (item.kind == 3) out->put(static_cast<double>(item.number));
  if (item.kind == 4) out->put_text(item.text);
}

bool reads_back(ByteReader* in, const Item& item) {
  if (item.kind == 0) return in->get<uint8_t>() == static_cast<uint8_t>(item.number);
  if (item.kind == 1) return in->get<uint32_t>() == static_cast<uint32_t>(item.number);
  if (item.kind == 2) return in->get<uint64_t>() == item.number;
  if (item.kind == 3) return in->get<double>() == static_cast<double>(item.number);
  return in->get_text(100) == item.text;
}

}  // namespace

TEST_SUITE("base/bytes") {
  TEST_CASE("whatever is written in any order is read back, and nothing is left") {
    Random random(test::seed(), 1);
    for (int round = 0; round < 200; ++round) {
      std::vector<Item> items(static_cast<size_t>(random.below(20)));
      ByteWriter out;
      for (Item& item : items) {
        item.kind = static_cast<int>(random.below(5));
        item.number = random.next() >> random.below(64);
        item.text.assign(static_cast<size_t>(random.below(101)),
                         static_cast<char>(random.below(256)));
        put(&out, item);
      }
      ByteReader in(out.bytes());
      for (const Item& item : items) CHECK(reads_back(&in, item));
      CHECK(in.left() == 0);
      CHECK(in.get<uint8_t>().error().code() == Code::kCorrupt);
    }
  }

  TEST_CASE("numbers stand with their lowest byte first") {
    ByteWriter out;
    out.put(uint32_t{0x04030201});
    for (size_t i = 0; i < 4; ++i) CHECK(out.bytes()[i] == static_cast<std::byte>(i + 1));
  }

  TEST_CASE("a read past the end fails, names what is missing and takes nothing") {
    const Bytes three(3, std::byte{7});
    ByteReader in(three);
    const Result<uint32_t> number = in.get<uint32_t>();
    REQUIRE_FALSE(number.has_value());
    CHECK(number.error().to_string() == "corrupt: 3 bytes left, need 4");
    CHECK_FALSE(in.get_bytes(4).has_value());
    CHECK_FALSE(in.get_bytes(SIZE_MAX).has_value());
    CHECK(in.left() == 3);
    CHECK(in.get_bytes(3)->data() == three.data());  // a view, not a copy
    CHECK(in.get_bytes(0)->empty());
  }

  TEST_CASE("a text's length is held against the bound and against what is there") {
    ByteWriter out;
    out.put_text("five!");
    CHECK(*ByteReader(out.bytes()).get_text(5) == "five!");
    CHECK(ByteReader(out.bytes()).get_text(4).error().message() == "text of 5 bytes, at most 4");
    ByteWriter lie;
    lie.put(UINT32_MAX);
    CHECK(ByteReader(lie.bytes()).get_text(SIZE_MAX).error().code() == Code::kCorrupt);
  }
}
