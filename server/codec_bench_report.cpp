#include <nlohmann/json.hpp>

#include "server/codec_bench.h"

namespace paceline {

std::string codec_bench_text(const CodecBench& bench) {
  std::string text = format_text("%s, %s, one thread, CPU time, median of %u\n", bench.cpu.c_str(),
                                 bench.compiler.c_str(), bench.repeats);
  for (const CodecYardstick& yardstick : bench.yardsticks) {
    text += format_text("\n%u elements, %s: memcpy %.1f GB/s, reading %.1f GB/s\n", yardstick.count,
                        yardstick.kernel_set.c_str(), yardstick.memcpy_gb_per_s,
                        yardstick.read_gb_per_s);
    text += format_text("%-6s %-12s %11s %23s %8s %9s %13s\n", "codec", "op", "us",
                        "fastest to slowest", "GB/s", "of memcpy", "of read bound");
    for (const CodecRate& rate : bench.rates)
      if (rate.count == yardstick.count && rate.kernel_set == yardstick.kernel_set)
        text += format_text("%-6s %-12s %11.2f %11.2f %11.2f %8.2f %9.2f %13.2f\n",
                            rate.codec.c_str(), rate.op.c_str(), rate.us, rate.us_min, rate.us_max,
                            rate.gb_per_s, rate.memcpy_ratio, rate.read_bound_ratio);
  }
  return text;
}

std::string codec_bench_json(const CodecBench& bench) {
  using Json = nlohmann::ordered_json;
  Json yardsticks = Json::array();
  for (const CodecYardstick& yardstick : bench.yardsticks)
    yardsticks.push_back({{"kernel_set", yardstick.kernel_set},
                          {"count", yardstick.count},
                          {"memcpy_gb_per_s", yardstick.memcpy_gb_per_s},
                          {"read_gb_per_s", yardstick.read_gb_per_s}});
  Json rows = Json::array();
  for (const CodecRate& rate : bench.rates)
    rows.push_back({{"kernel_set", rate.kernel_set},
                    {"codec", rate.codec},
                    {"op", rate.op},
                    {"count", rate.count},
                    {"us", rate.us},
                    {"us_min", rate.us_min},
                    {"us_max", rate.us_max},
                    {"gb_per_s", rate.gb_per_s},
                    {"memcpy_ratio", rate.memcpy_ratio},
                    {"read_bound_ratio", rate.read_bound_ratio}});
  const Json json = {{"cpu", bench.cpu},
                     {"compiler", bench.compiler},
                     {"repeats", bench.repeats},
                     {"yardsticks", yardsticks},
                     {"rows", rows}};
  return json.dump(1) + "\n";
}

}  // namespace paceline
