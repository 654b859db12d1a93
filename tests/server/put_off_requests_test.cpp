#include "server/put_off_requests.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::seed;

namespace {

// Says its number.
class Numbered final : public Responder {
 public:
  Numbered(uint64_t number, std::vector<uint64_t>* answered)
      : number_(number), answered_(answered) {}
  void reply(Bytes) override { answered_->push_back(number_); }

 private:
  uint64_t number_;
  std::vector<uint64_t>* answered_;
};

}  // namespace

TEST_SUITE("server/put_off_requests") {
  TEST_CASE("each waits for its time, and of one worker the newest few") {
    Random random(seed(), 1);
    PutOffRequests requests;
    std::vector<uint64_t> answered;
    // The oracle: what waits, by number, which is the order in which they came.
    struct Expected {
      std::string who;
      TimeUs until = 0;
    };
    std::map<uint64_t, Expected> waiting;
    TimeUs now = 0;
    for (uint64_t number = 0; number < 20'000; ++number) {
      now += static_cast<TimeUs>(random.below(10));
      const std::string who = random.below(3) == 0 ? "flood" : std::to_string(random.below(20));
      std::vector<uint64_t> due;
      answered.clear();
      if (auto oldest =
              requests.add(who, std::make_unique<Numbered>(number, &answered), now + 100)) {
        oldest->reply({});
        due.push_back(std::ranges::find_if(waiting, [&](const auto& entry) {
                        return entry.second.who == who;
                      })->first);
        waiting.erase(due.back());
      }
      waiting[number] = {who, now + 100};
      CHECK(answered == due);
      const auto of_worker = [&](const auto& entry) { return entry.second.who == who; };
      REQUIRE(std::ranges::count_if(waiting, of_worker) <= static_cast<ptrdiff_t>(kPutOffMax));

      due.clear();
      answered.clear();
      for (const auto& responder : requests.take_due(now)) responder->reply({});
      std::erase_if(waiting, [&](const auto& entry) {
        if (entry.second.until > now) return false;
        due.push_back(entry.first);
        return true;
      });
      std::ranges::sort(answered);
      CHECK(answered == due);
    }
    CHECK(requests.take_all().size() == waiting.size());
    CHECK(requests.take_all().empty());
  }

  TEST_CASE("an honest worker's requests never make room for each other") {
    PutOffRequests requests;
    std::vector<uint64_t> answered;
    for (uint64_t number = 0; number < kPutOffMax; ++number)
      CHECK(requests.add("board", std::make_unique<Numbered>(number, &answered), 100) == nullptr);
    CHECK(requests.take_all().size() == kPutOffMax);
  }
}
