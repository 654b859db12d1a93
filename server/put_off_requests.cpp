#include "server/put_off_requests.h"

#include <utility>

namespace paceline {

std::unique_ptr<Responder> PutOffRequests::add(const std::string& who,
                                               std::unique_ptr<Responder> responder, TimeUs until) {
  std::deque<Waiting>& of_worker = waiting_[who];
  of_worker.push_back({std::move(responder), until});
  if (of_worker.size() <= kPutOffMax) return nullptr;
  std::unique_ptr<Responder> oldest = std::move(of_worker.front().responder);
  of_worker.pop_front();
  return oldest;
}

std::vector<std::unique_ptr<Responder>> PutOffRequests::take_due(TimeUs now) {
  std::vector<std::unique_ptr<Responder>> due;
  for (auto& [who, of_worker] : waiting_) {
    while (!of_worker.empty() && of_worker.front().until <= now) {
      due.push_back(std::move(of_worker.front().responder));
      of_worker.pop_front();
    }
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  return due;
}

}  // namespace paceline
