// How fast a plain numeric table is read: text in memory to a Dataset.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/base/random.h"
#include "runtime/data/formats.h"

namespace {

using namespace paceline;

constexpr size_t kBytes = 64 << 20;
constexpr int kRepeats = 9;

// CPU time of the thread: the same as wall time on an idle machine, and steadier on a busy one.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Rows of sixteen readings and a label.
//   digits  behind the point
std::string table(int digits) {
  Random random(1, 0);
  std::string text = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,state\n";
  while (text.size() < kBytes) {
    for (int i = 0; i < 16; ++i)
      text += format_text("%.*f,", digits, static_cast<double>(random.symmetric()) * 100);
    text += std::to_string(random.below(4)) + "\n";
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  for (const int digits : {2, 4, 9}) {
    const std::string text = table(digits);
    std::vector<double> speeds;
    for (int i = 0; i < kRepeats; ++i) {
      const auto raw = std::as_bytes(std::span(text));
      Bytes content(raw.begin(), raw.end());
      const double begin = now_s();
      const Result<Dataset> dataset = read_csv(std::move(content), {});
      const double taken = now_s() - begin;
      if (!dataset) {
        std::fprintf(stderr, "%s\n", dataset.error().message().c_str());
        return 1;
      }
      speeds.push_back(static_cast<double>(text.size()) / 1e6 / taken);
    }
    std::ranges::sort(speeds);
    const char* form = json ? "{\"decimals\":%d,\"mb_per_second\":%.0f,\"lowest\":%.0f,"
                              "\"highest\":%.0f,\"compiler\":\"%s\"}\n"
                            : "%d decimals: %.0f MB/s (%.0f to %.0f), compiler %s\n";
    std::printf(form, digits, speeds[kRepeats / 2], speeds.front(), speeds.back(), __VERSION__);
  }
}
