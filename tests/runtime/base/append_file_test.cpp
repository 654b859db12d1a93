#include "runtime/base/append_file.h"

#include <doctest/doctest.h>

#include "runtime/base/files.h"
#include "tests/support/temp_folder.h"

using namespace paceline;

namespace {

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_SUITE("base/append_file") {
  TEST_CASE("it grows by what is appended, and begins empty where a file was") {
    const test::TempFolder folder;
    const std::string path = folder.write("journal", "of another life");
    const std::unique_ptr<AppendFile> file = create_append_file(path).value();
    CHECK(file->append(bytes_of("one ")).ok());
    CHECK(file->append(bytes_of("two")).ok());
    CHECK(file->sync().ok());
    CHECK(std::ranges::equal(read_file(path, 100).value(), bytes_of("one two")));
  }

  TEST_CASE("a folder that is not there is kNotFound; a full disk is kResourceExhausted") {
    const test::TempFolder folder;
    CHECK(create_append_file(folder.file("none/journal")).error().code() == Code::kNotFound);
    if (const auto full = create_append_file("/dev/full"))
      CHECK((*full)->append(bytes_of("x")).code() == Code::kResourceExhausted);
  }
}
