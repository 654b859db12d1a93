// What batch normalisation saw comes in beside updates and goes out with publications.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/random.h"
#include "tests/server/server_desk.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::as;
using test::HandWorker;
using test::join;
using test::ServerDesk;

namespace {

ServerOptions normed(const char* pace, CodecId codec_down = CodecId::kS1r) {
  ServerOptions options = test::desk_options(pace);
  options.run_text =
      "[model]\ninput = [2]\nclasses = 2\n[[layer]]\ntype = \"batch_norm\"\n[[layer]]\n"
      "type = \"dense\"\nunits = 2\n[training]\nbatch = 10\nrate = 0.1\nkeep = 0.9\nseed = 3\n";
  options.run = parse_run(options.run_text).value();
  options.codec_down = codec_down;
  options.recording = Recording::kPayloads;
  return options;
}

std::vector<float> published(ServerDesk& desk) {
  return published_statistics(desk.layout(), desk.core().published());
}

// Of one value a channel at the middle, so many rows each.
Statistics seen(uint64_t rows, float mean, float variance) {
  const float squares = variance * static_cast<float>(rows);
  return {rows, {mean, mean, squares, squares}};
}

}  // namespace

TEST_SUITE("server/statistics") {
  TEST_CASE("a close pools its contributors, whatever codecs and factors do to weights") {
    ServerDesk desk(normed("bsp"));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    CHECK(published(desk) == std::vector<float>{0, 0, 1, 1});
    join({&a, &b});
    a.statistics = seen(10, 1.0f, 3.0f);
    b.statistics = seen(10, 5.0f, 1.0f);
    a.exchange(0.5f);
    const uint64_t before = desk.core().publication();
    b.exchange(0.5f);
    REQUIRE(desk.core().publication() == before + 1);
    CHECK(published(desk) == std::vector<float>{3, 3, 6, 6});  // 2 within, 4 between
    CHECK(published_statistics(desk.layout(), desk.core().master()) == published(desk));

    // The delta says so exactly, with its last chunk; a key frame has it in its bits.
    const Fetch delta{1, before, before + 1, 0, false};
    const auto answer = desk.ask(a.session, delta);
    REQUIRE(as<Fetched>(answer) != nullptr);
    CHECK(as<Fetched>(answer)->statistics == published(desk));
    const auto frame = desk.ask(a.session, Fetch{1, 0, before + 1, 0, true});
    CHECK(as<Fetched>(frame)->statistics.empty());
    // A round in which nobody has seen anything changes nothing.
    a.statistics = b.statistics = {};
    a.exchange(0.5f);
    b.exchange(0.5f);
    CHECK(published(desk) == std::vector<float>{3, 3, 6, 6});
  }

  TEST_CASE("what is older weighs nine closes of the whole fleet at most, in every pace") {
    for (const char* pace : {"bsp", "asp"}) {
      ServerDesk desk(normed(pace));
      HandWorker a{&desk, "a"}, b{&desk, "b"};
      join({&a, &b});
      a.statistics = b.statistics = seen(10, 1.0f, 0.0f);
      for (int i = 0; i < 30; ++i) {
        a.exchange(0.0f);
        b.exchange(0.0f);
      }
      a.statistics = b.statistics = seen(10, 2.0f, 0.0f);
      a.exchange(0.0f);
      b.exchange(0.0f);
      desk.pass(60'000'000);
      const double mean = static_cast<double>(published(desk)[0]);
      if (std::string(pace) == "bsp")
        CHECK(mean == doctest::Approx(1.1).epsilon(1e-6));
      else  // 180 rows before 10, twice
        CHECK(mean == doctest::Approx(2 - std::pow(18.0 / 19, 2)).epsilon(1e-6));
    }
  }

  TEST_CASE("statistics that can't be are refused with their update, and move nothing") {
    ServerDesk desk(normed("asp"));
    HandWorker a{&desk, "a"};
    join({&a});
    const std::vector<float> before = published(desk);
    for (const Statistics& lie :
         {seen(10, std::nanf(""), 1.0f), seen(10, 1.0f, -1.0f), seen(11, 1.0f, 1.0f),
          seen(10, INFINITY, 1.0f), Statistics{10, {1.0f}}, Statistics{0, {1, 1, 1, 1}}}) {
      a.statistics = lie;
      CHECK(test::refusal_of(a.exchange(0.5f)) == RefusalClass::kContent);
    }
    CHECK(published(desk) == before);
    CHECK(desk.core().members()[0].strikes == 6);
  }

  TEST_CASE("statistics that changed on their way are asked for again") {
    ServerDesk desk(normed("asp"));
    HandWorker a{&desk, "a"};
    join({&a});
    a.statistics = seen(10, 1.0f, 1.0f);
    ++a.sequence;
    const EncodedUpdate update = a.update(0.5f);
    a.push(update);
    Exchange exchange = a.exchange_of(update);
    exchange.statistics[0] = 1.5f;
    CHECK(as<Missing>(desk.ask(a.session, exchange)) != nullptr);
  }

  TEST_CASE("snapshot and records lead another server to the same bytes") {
    Random random(test::seed(), 73);
    for (const char* pace : {"bsp", "asp", "fedbuff"})
      for (const Recording recording : {Recording::kPayloads, Recording::kRecovery}) {
        ServerOptions options = normed(pace, CodecId::kQ8);
        options.recording = recording;
        ServerDesk desk(std::move(options));
        HandWorker a{&desk, "a"}, b{&desk, "b"};
        join({&a, &b});
        std::vector<Bytes> records;
        desk.core().take_record(true);
        const Bytes snapshot = desk.core().save();
        for (int i = 0; i < 12; ++i) {
          a.statistics = seen(10, 0.3f * static_cast<float>(i), 1.0f);
          b.statistics = seen(7, -0.1f * static_cast<float>(i), 0.3f);
          a.exchange(0.25f);
          b.exchange(-0.125f);
          records.push_back(desk.core().take_record(true));
        }
        auto other = ServerCore::make(desk.core().options()).value();
        REQUIRE(other->load(snapshot).ok());
        for (const Bytes& record : records) REQUIRE(other->redo(record).ok());
        const bool same = other->save() == desk.core().save();
        CHECK_MESSAGE(same, pace);
        // A damaged record is an error or one of sound statistics.
        for (int i = 0; i < 200; ++i) {
          Bytes damaged = records[0];
          damaged[static_cast<size_t>(random.below(damaged.size()))] =
              static_cast<std::byte>(random.below(256));
          auto core = ServerCore::make(desk.core().options()).value();
          REQUIRE(core->load(snapshot).ok());
          if (!core->redo(damaged).ok()) continue;
          for (const float value : published_statistics(desk.layout(), core->published()))
            CHECK(std::isfinite(value));
        }
      }
  }
}
