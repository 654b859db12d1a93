// Options that can't be, and a server's state over a restart.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/random.h"
#include "tests/server/server_desk.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::ServerDesk;

TEST_SUITE("server/core") {
  TEST_CASE("a pace, policy, codec or size of fleet that can't be is refused at the start") {
    const auto refused = [](auto spoil) {
      ServerOptions options = desk_options("bsp");
      spoil(options);
      const Result<std::unique_ptr<ServerCore>> core = ServerCore::make(std::move(options));
      return !core && core.error().code() == Code::kInvalidArgument;
    };
    CHECK(refused([](ServerOptions& o) { o.pace = "pbs"; }));
    CHECK(refused([](ServerOptions& o) { o.freq = "fixed:0"; }));
    CHECK(refused([](ServerOptions& o) { o.codec_down = CodecId::kS1; }));
    CHECK(refused([](ServerOptions& o) { o.min_workers = 0; }));
    CHECK(refused([](ServerOptions& o) { o.min_workers = kWorkersMax + 1; }));
    CHECK(refused([](ServerOptions& o) { o.aggregate = "mode"; }));
    CHECK(refused([](ServerOptions& o) { o.aggregate = "krum:1", o.pace = "asp"; }));
    CHECK(refused([](ServerOptions& o) { o.aggregate = "krum:1", o.pace = "auto"; }));
    CHECK(refused([](ServerOptions& o) { o.aggregate = "median", o.codec_up = CodecId::kS1r; }));
    CHECK(refused([](ServerOptions& o) { o.aggregate = "trimmed:1", o.codec_up_auto = true; }));
    const auto refused_private = [&](auto spoil) {
      return refused([&](ServerOptions& o) {
        o.run.privacy = PrivacySpec{.clip = 0.1, .noise = 1};
        spoil(o);
      });
    };
    for (const char* freq : {"trend", "agreement", "adacomm", "budget", "post_local"})
      CHECK(refused_private([&](ServerOptions& o) { o.freq = freq; }));
    CHECK(refused_private([](ServerOptions& o) { o.pace = "dsp"; }));
    CHECK(refused_private([](ServerOptions& o) { o.pace = "lsp"; }));
    CHECK_FALSE(refused_private([](ServerOptions& o) { o.codec_up_auto = true; }));
    CHECK(refused([](ServerOptions& o) { o.start.assign(5, 0.0f); }));
    CHECK_FALSE(refused([](ServerOptions& o) { o.aggregate = "krum:1", o.codec_up_auto = true; }));
    CHECK_FALSE(refused([](ServerOptions&) {}));
  }

  TEST_CASE(
      "a start that is given is what workers get first, and no part of a state that is restored") {
    ServerOptions options = desk_options("bsp");
    options.start.assign(static_cast<size_t>(options.run.model.layout.element_count()), 0.0f);
    options.start[1] = 0.75f;
    ServerDesk given(options);
    CHECK(std::ranges::equal(given.core().published(), options.start));
    ServerDesk restored(desk_options("bsp"));
    REQUIRE(restored.core().restore(given.core().save(), true).ok());
    CHECK(restored.core().checksum() == given.core().checksum());
  }

  TEST_CASE("saved and restored it is the same server, and verdicts are remembered") {
    ServerDesk before(desk_options("bsp"));
    HandWorker worker{&before, "a"};
    worker.say_hello();
    for (int i = 0; i < 3; ++i) worker.exchange(0.1f);
    const Bytes state = before.core().save();
    for (const bool exact : {true, false}) {
      ServerDesk after(desk_options("bsp"));
      REQUIRE(after.core().restore(state, exact).ok());
      CHECK(after.core().generation() == (exact ? 1 : 2));
      CHECK(after.core().publication() == before.core().publication());
      CHECK(after.core().round() == before.core().round());
      CHECK(after.core().checksum() == before.core().checksum());
      if (exact) CHECK(after.core().save() == state);

      HandWorker again = worker;
      again.desk = &after;
      again.say_hello();
      CHECK(again.welcome.last_settled == 3);
      CHECK(again.welcome.verdict == Verdict::kApplied);
      CHECK(again.welcome.next_sequence == 4);
      // The last update comes once more: it is granted, not applied.
      const uint64_t version = after.core().version();
      CHECK(as<Granted>(after.ask(again.session, again.exchange_of(again.update(0.1f)))) !=
            nullptr);
      CHECK(after.core().version() == version);
    }
  }

  TEST_CASE("a state that is cut short is kCorrupt, one of another run kInvalidArgument") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    worker.exchange(0.1f);
    const Bytes state = desk.core().save();
    for (size_t length = 0; length < state.size(); ++length) {
      ServerDesk other(desk_options("bsp"));
      CHECK(other.core().restore(ByteSpan(state).first(length), true).code() == Code::kCorrupt);
    }
    ServerDesk larger(desk_options("bsp", 5, 3));
    CHECK(larger.core().restore(state, true).code() == Code::kInvalidArgument);
  }

  TEST_CASE("a damaged state is an error or a state, never a crash") {
    ServerDesk desk(desk_options("compat"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    worker.exchange(0.1f);
    const Bytes state = desk.core().save();
    Random random(test::seed(), 1);
    for (int i = 0; i < 2000; ++i) {
      Bytes damaged = state;
      const auto at = static_cast<size_t>(random.below(state.size()));
      damaged[at] = static_cast<std::byte>(random.below(256));
      ServerDesk other(desk_options("compat"));
      const Status status = other.core().restore(damaged, true);
      CHECK((status.ok() || status.code() == Code::kCorrupt ||
             status.code() == Code::kInvalidArgument));
    }
  }
}
