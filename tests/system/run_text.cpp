#include "tests/system/run_text.h"

#include <regex>

#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

namespace paceline::test {

namespace {
constexpr uint32_t kFeatures = 8;
constexpr uint32_t kClasses = 3;
}  // namespace

std::string RunText::text() const {
  return format_text(
      "[model]\ninput = [%u]\nclasses = %u\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n"
      "[training]\nbatch = 32\nrate = 0.05\nmomentum = 0.9\nseed = 5\n"
      "[communication]\npace = \"%s\"\nfreq = \"%s\"\ncodec_up = \"%s\"\ncodec_down = \"%s\"\n"
      "[server]\nmin_workers = %u\nheartbeat_ms = %u\nexchange_deadline_ms = %u\n"
      "checkpoint_ms = %u\n",
      kFeatures, kClasses, hidden, kClasses, pace.c_str(), freq.c_str(), codec_up.c_str(),
      codec_down.c_str(), min_workers, heartbeat_ms, exchange_deadline_ms, checkpoint_ms);
}

std::string cloud_rows(const std::string& name, uint32_t rows) {
  Random random(7, crc32c(std::as_bytes(std::span(name))));
  std::string text = "a,b,c,d,e,f,g,h,kind\n";
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t kind = random.below(kClasses);
    for (uint32_t i = 0; i < kFeatures; ++i) {
      const float center = i % kClasses == kind ? 0.8f : -0.2f;
      const float noise = random.symmetric() + random.symmetric() + random.symmetric();
      text += format_text("%.4f,", static_cast<double>(center + noise));
    }
    text += format_text("%llu\n", static_cast<unsigned long long>(kind));
  }
  return text;
}

std::map<uint64_t, std::string> checksums_of(const std::string& log) {
  static const std::regex line("publication ([0-9]+) checksum ([0-9a-f]{8})\n");
  std::map<uint64_t, std::string> checksums;
  for (std::sregex_iterator found(log.begin(), log.end(), line), end; found != end; ++found)
    checksums[std::stoull((*found)[1])] = (*found)[2];
  return checksums;
}

std::string last_model(const std::string& log) {
  static const std::regex words("publication [0-9]+, checksum [0-9a-f]{8}");
  std::string last;
  for (std::sregex_iterator found(log.begin(), log.end(), words), end; found != end; ++found)
    last = found->str();
  return last;
}

uint64_t newest_publication(const std::string& log) {
  const std::map<uint64_t, std::string> all = checksums_of(log);
  return all.empty() ? 0 : all.rbegin()->first;
}

}  // namespace paceline::test
