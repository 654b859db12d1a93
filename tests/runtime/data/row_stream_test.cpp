#include "runtime/data/row_stream.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

using test::contains;
using test::pick;

using Cells = std::vector<std::string>;

// Hands `text` out in pieces of random length, as a pipe does.
RowStream::Source in_pieces(std::string text, Random random) {
  return
      [text = std::move(text), random, at = size_t{0}](std::string* out) mutable -> Result<bool> {
        if (at == text.size()) return false;
        const size_t count = 1 + pick(random, std::min<size_t>(text.size() - at, 9));
        out->append(text, at, count);
        at += count;
        return true;
      };
}

struct Streamed {
  std::vector<Cells> rows;
  std::vector<size_t> lines;
  Cells errors;
};

Streamed stream_all(const std::string& text, uint64_t seed) {
  RowStream stream(in_pieces(text, Random(seed, 1)));
  Streamed all;
  const Result<TableHeader> header = stream.header();
  if (!header) {
    all.errors.push_back(header.error().message());
    return all;
  }
  CsvRecord record;
  for (;;) {
    const Result<bool> more = stream.next(&record);
    if (!more) {
      all.errors.push_back(more.error().message());
      REQUIRE(all.errors.size() < 1000);
      continue;
    }
    if (!*more) return all;
    all.rows.emplace_back(record.cells.begin(), record.cells.end());
    all.lines.push_back(record.line);
  }
}

}  // namespace

TEST_SUITE("data/row_stream") {
  TEST_CASE("next: rows in any pieces are those of the whole text, with their lines") {
    Random random(test::seed(), 9);
    const char* const cells[] = {"1", "2.5", "\"a\nb\"", "\"q\"\"q\"", "", " x ", "\"\""};
    const char* const ends[] = {"\n", "\r\n", "\n\n", "\n# c\n"};
    for (uint64_t round = 0; round < 200; ++round) {
      std::string text = pick(random, 2) == 0 ? "\xEF\xBB\xBF# c\na,b\n" : "a,b\r\n";
      for (size_t row = pick(random, 12); row > 0; --row)
        text += std::string(cells[pick(random, 7)]) + "," + cells[pick(random, 7)] +
                ends[pick(random, 4)];
      if (pick(random, 3) == 0) text += "1,2";
      CAPTURE(text);
      CsvScanner scanner = CsvScanner::make(text).value();
      REQUIRE(read_table_header(&scanner).has_value());
      Streamed wanted;
      for (CsvRecord record; scanner.next(&record).value();) {
        if (record.is_empty()) continue;
        wanted.rows.emplace_back(record.cells.begin(), record.cells.end());
        wanted.lines.push_back(record.line);
      }
      const Streamed got = stream_all(text, test::seed() + round);
      CHECK(got.rows == wanted.rows);
      CHECK(got.lines == wanted.lines);
      CHECK(got.errors.empty());
    }
  }

  TEST_CASE("next: a row that can't be split is one error, and the next row is read") {
    const Streamed got = stream_all("a,b\n1,2\n\"1\"x,2\n3\r,4\n5,6\n", 1);
    CHECK(got.rows == std::vector<Cells>{{"1", "2"}, {"5", "6"}});
    REQUIRE(got.errors.size() == 2);
    CHECK(contains(got.errors[0], "line 3: text after a closing quote"));
    CHECK(contains(got.errors[1], "line 4: a carriage return inside a row"));
    CHECK(got.lines == std::vector<size_t>{2, 5});
  }

  TEST_CASE("next: a quote that is never closed takes a bounded number of lines with it") {
    std::string text = "a,b\n1,2\n\"3,4\n";
    for (int i = 0; i < 100; ++i) text += "5,6\n";
    const Streamed got = stream_all(text, 1);
    REQUIRE(got.errors.size() == 1);
    CHECK(contains(got.errors[0], "line 3: a quote is opened and never closed"));
    CHECK(got.rows.size() == 1 + 100 - (RowStream::kRowLinesMax - 1));
  }

  TEST_CASE("header: what is wrong with it is said without waiting for the end") {
    const auto endless = [](std::string* text) -> Result<bool> {
      text->append("a,a\n1,2\n");
      return true;
    };
    RowStream stream(endless);
    CHECK(contains(stream.header().error().message(), "column 'a' occurs twice"));
    RowStream line([](std::string* text) -> Result<bool> {
      text->append(1000, 'x');
      return true;
    });
    CHECK(line.header().error().code() == Code::kResourceExhausted);
  }

  TEST_CASE("next: random bytes neither crash nor go on for ever") {
    Random random(test::seed(), 10);
    const std::string_view bytes("ab1,;\t\"\"\r\n\n# .\0", 15);
    for (uint64_t round = 0; round < 2000; ++round) {
      std::string text = "a,b\n";
      for (size_t i = pick(random, 60); i > 0; --i) text += bytes[pick(random, bytes.size())];
      const Streamed got = stream_all(text, round);
      CHECK(got.rows.size() + got.errors.size() <= text.size());
    }
  }

  TEST_CASE(
      "lines of JSON are rows: columns by the first one's names, whatever comes in which order") {
    const Streamed all = stream_all(
        "\n{\"a\": 1.5, \"state\": \"id\\u006ce\", \"b\": null}\r\n"
        "{\"state\":\"\",\"b\":-2e3,\"a\":true,\"more\":{\"x\":[1,2]}}\n\n"
        "{\"b\":3}\n{\"a\":[1]}\n{\"a\":1\n7,8\n{}\n{\"a\":1,}\n{\"a\":9} ",
        test::seed());
    CHECK(
        all.rows ==
        std::vector<Cells>{
            {"1.5", "idle", ""}, {"true", "", "-2e3"}, {"", "", "3"}, {"", "", ""}, {"9", "", ""}});
    CHECK(all.lines == std::vector<size_t>{2, 3, 5, 9, 11});
    REQUIRE(all.errors.size() == 4);
    CHECK(contains(all.errors[0], "line 6: column 'a' holds an object or a list"));
    CHECK(contains(all.errors[1], "line 7: JSON"));
    CHECK(contains(all.errors[2], "line 8: JSON"));
    CHECK(contains(all.errors[3], "line 10: JSON"));
    CHECK(contains(stream_all("{\"a\":1,\"a\":2}\n", 1).errors.at(0), "column 'a' occurs twice"));
    CHECK(contains(stream_all("{}\n", 1).errors.at(0), "names no columns"));
  }
}

}  // namespace paceline
