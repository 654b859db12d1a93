// What a server writes down leads another one to the same state, from any moment on.
#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/server/server_desk.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::join;
using test::ServerDesk;

namespace {

ServerOptions recorded(const char* pace, Recording recording = Recording::kPayloads) {
  ServerOptions options = desk_options(pace);
  options.recording = recording;
  return options;
}

// A server that was another one's: its snapshot, and then its records.
std::unique_ptr<ServerCore> led_by(const ServerCore& first, const Bytes& snapshot,
                                   const std::vector<Bytes>& records) {
  std::unique_ptr<ServerCore> core = ServerCore::make(first.options()).value();
  REQUIRE(core->load(snapshot).ok());
  for (const Bytes& record : records) REQUIRE(core->redo(record).ok());
  return core;
}

}  // namespace

TEST_SUITE("server/recording") {
  TEST_CASE("only what must outlive the server makes a record") {
    ServerDesk desk(recorded("bsp"));
    HandWorker worker{&desk, "a"};
    CHECK(desk.core().take_record().empty());
    worker.say_hello();  // a new worker's place in the sums
    CHECK_FALSE(desk.core().take_record().empty());
    worker.say_hello();
    worker.beat();
    ++worker.sequence;
    const EncodedUpdate update = worker.update(0.5f);
    worker.push(update);
    CHECK(desk.core().take_record().empty());
    REQUIRE(as<Granted>(desk.ask(worker.session, worker.exchange_of(update))) != nullptr);
    CHECK_FALSE(desk.core().take_record().empty());
    ++worker.sequence;
    Exchange late = worker.exchange_of(update);
    late.generation = 9;
    REQUIRE(as<Refused>(desk.ask(worker.session, late)) != nullptr);
    CHECK_FALSE(desk.core().take_record().empty());
    CHECK(desk.core().take_record().empty());
  }

  TEST_CASE("without a wish for records there are none") {
    ServerDesk desk(recorded("bsp", Recording::kOff));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    worker.exchange(0.5f);
    CHECK(desk.core().take_record(true).empty());
  }

  TEST_CASE("the master is recorded where it is shorter than the payloads, unless all are wanted") {
    for (const Recording recording : {Recording::kRecovery, Recording::kPayloads}) {
      ServerDesk desk(recorded("bsp", recording));
      const Bytes snapshot = desk.core().save();
      HandWorker a{&desk, "a"}, b{&desk, "b"}, c{&desk, "c"};
      join({&a, &b, &c});
      std::vector<Bytes> records = {desk.core().take_record()};
      for (HandWorker* worker : {&a, &b, &c}) worker->exchange(0.25f);
      records.push_back(desk.core().take_record());
      const ServerRecord record = parse_record(records.back()).value();
      REQUIRE(record.moves.size() == 2);
      REQUIRE(record.moves[0].updates.size() == 3);
      // Three RAW32 payloads are longer than the model that they lead to.
      CHECK(record.moves[0].master.empty() == (recording == Recording::kPayloads));
      for (const RecordedUpdate& update : record.moves[0].updates) {
        CHECK(update.chunks.empty() == (recording == Recording::kRecovery));
        CHECK(update.bytes > 0);
      }
      CHECK(led_by(desk.core(), snapshot, records)->save() == desk.core().save());
    }
  }

  TEST_CASE("a leaver's update, which has had its answer, outlives the server") {
    ServerDesk desk(recorded("bsp"));
    HandWorker leaver{&desk, "leaver"}, stayer{&desk, "stayer"};
    join({&leaver, &stayer});
    const Bytes snapshot = desk.core().save();
    REQUIRE_FALSE(desk.core().take_record().empty());
    ++leaver.sequence;
    const EncodedUpdate update = leaver.update(0.5f);
    leaver.push(update);
    Exchange exchange = leaver.exchange_of(update);
    exchange.leaving = true;
    REQUIRE(as<Granted>(desk.ask(leaver.session, exchange)) != nullptr);
    REQUIRE(desk.core().members()[0].held);  // the round waits for the stayer
    const Bytes record = desk.core().take_record();
    // Also where it comes back before its last update is applied.
    HandWorker again = leaver;
    again.incarnation = 2;
    again.say_hello();
    const Bytes back = desk.core().take_record(true);

    for (const bool comes_back : {false, true}) {
      std::vector<Bytes> records = {record};
      if (comes_back) records.push_back(back);
      const std::unique_ptr<ServerCore> next = led_by(desk.core(), snapshot, records);
      if (comes_back) CHECK(next->save() == desk.core().save());
      next->resume();
      const float before = next->master()[0];
      next->suspend();
      CHECK(next->master()[0] != before);
      CHECK(next->members()[0].last_settled == leaver.sequence);
    }
  }

  TEST_CASE("an update that is held comes again after a restart, and is in no count twice") {
    ServerDesk desk(recorded("bsp"));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    join({&a, &b});
    const uint64_t steps = desk.core().members()[1].steps;
    const uint64_t exchanges = desk.core().members()[1].exchanges;
    const uint64_t clock = desk.core().members()[1].clock;
    CHECK_FALSE(b.exchange(0.5f));
    REQUIRE(desk.core().members()[1].steps > steps);
    std::unique_ptr<ServerCore> next = ServerCore::make(desk.core().options()).value();
    REQUIRE(next->restore(desk.core().save(), true).ok());
    const Member& after = next->members()[1];
    CHECK_FALSE(after.held);
    CHECK(after.steps == steps);
    CHECK(after.exchanges == exchanges);
    CHECK(after.clock == clock);
    CHECK(after.next_sequence == b.sequence + 1);
  }

  TEST_CASE("a publication that comes out otherwise than it did is kCorrupt, and says so") {
    ServerDesk desk(recorded("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    worker.exchange(0.5f);
    const Bytes record = desk.core().take_record();
    ServerOptions options = desk.core().options();
    options.run.training.seed += 1;  // another start
    std::unique_ptr<ServerCore> other = ServerCore::make(std::move(options)).value();
    const Status status = other->redo(record);
    CHECK(status.code() == Code::kCorrupt);
    CHECK_MESSAGE(status.message().find("publication 2 has checksum") != std::string::npos,
                  status.message());
  }

  TEST_CASE("a damaged record is an error or a record, never a crash") {
    ServerDesk desk(recorded("compat"));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    const Bytes snapshot = desk.core().save();
    join({&a, &b});
    const Bytes record = desk.core().take_record();
    for (size_t length = 0; length < record.size(); ++length)
      CHECK(parse_record(ByteSpan(record).first(length)).error().code() == Code::kCorrupt);
    Random random(test::seed(), 1);
    for (int i = 0; i < 2000; ++i) {
      Bytes damaged = record;
      damaged[static_cast<size_t>(random.below(record.size()))] =
          static_cast<std::byte>(random.below(256));
      std::unique_ptr<ServerCore> core = ServerCore::make(desk.core().options()).value();
      REQUIRE(core->load(snapshot).ok());
      const Status status = core->redo(damaged);
      CHECK((status.ok() || status.code() == Code::kCorrupt));
    }
  }
}
