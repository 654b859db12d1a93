#include "server/onnx/protobuf.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

bool is_corrupt(const Bytes& bytes) {
  ProtoReader reader(bytes);
  ProtoField field;
  for (;;) {
    const Result<bool> more = reader.next(&field);
    if (!more) return more.error().code() == Code::kCorrupt;
    if (!*more) return false;
  }
}

}  // namespace

TEST_SUITE_BEGIN("onnx/protobuf");

TEST_CASE("read: the worked examples of the format's description") {
  // Field 1 is 150; field 2 is "testing"; field 6 is the packed list 3, 270, 86942.
  const Bytes bytes = bytes_of({0x08, 0x96, 0x01, 0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69,
                                0x6e, 0x67, 0x32, 0x06, 0x03, 0x8E, 0x02, 0x9E, 0xA7, 0x05});
  ProtoReader reader(bytes);
  ProtoField field;
  REQUIRE(reader.next(&field).value());
  CHECK(field.number == 1);
  CHECK(field.whole() == 150);
  REQUIRE(reader.next(&field).value());
  CHECK(field.number == 2);
  CHECK(field.text() == "testing");
  REQUIRE(reader.next(&field).value());
  std::vector<int64_t> list;
  REQUIRE(read_repeated(field, &list).ok());
  CHECK(list == std::vector<int64_t>{3, 270, 86942});
  CHECK_FALSE(reader.next(&field).value());
}

TEST_CASE("read: what is cut off, too long or of no kind is kCorrupt") {
  CHECK(is_corrupt(bytes_of({0x08})));              // no value
  CHECK(is_corrupt(bytes_of({0x08, 0x96})));        // a number goes on
  CHECK(is_corrupt(bytes_of({0x12, 0x02, 0x41})));  // a length beyond the end
  CHECK(is_corrupt(bytes_of({0x0D, 0, 0, 0})));     // three of four bytes
  CHECK(is_corrupt(bytes_of({0x0B})));              // a group
  CHECK(is_corrupt(bytes_of({0x00, 0x01})));        // field 0
  CHECK(
      is_corrupt(bytes_of({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1})));
  CHECK(is_corrupt(bytes_of({0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01})));
}

TEST_CASE("write: what is written is read") {
  Random random(test::seed(), 50);
  for (int round = 0; round < 200; ++round) {
    const auto whole = static_cast<int64_t>(random.next() >> random.below(64));
    const float real = random.symmetric();
    const std::vector<int64_t> list = {whole, -whole, 0, static_cast<int64_t>(random.below(300))};
    ProtoWriter inner, writer;
    inner.put(3, "text");
    writer.put(1, whole);
    writer.put(2, real);
    writer.put(700, std::span<const int64_t>(list));
    writer.put(4, inner);
    const Bytes bytes = writer.take();
    ProtoReader reader(bytes);
    ProtoField field;
    REQUIRE(reader.next(&field).value());
    CHECK(field.whole() == whole);
    REQUIRE(reader.next(&field).value());
    CHECK(field.real() == real);
    REQUIRE(reader.next(&field).value());
    CHECK(field.number == 700);
    std::vector<int64_t> again;
    REQUIRE(read_repeated(field, &again).ok());
    CHECK(again == list);
    REQUIRE(reader.next(&field).value());
    ProtoReader within(field.bytes);
    REQUIRE(within.next(&field).value());
    CHECK(field.text() == "text");
  }
}

TEST_SUITE_END();

}  // namespace paceline
