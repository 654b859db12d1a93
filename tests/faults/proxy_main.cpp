// fault_proxy HOST_AND_PORT [SEED]: a bad network to put between a worker and a server by hand.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "tests/faults/proxy.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr const char* kUsage =
    "usage: fault_proxy 127.0.0.1:PORT [SEED]\n"
    "Prints where it listens, then takes orders, a line each:\n"
    "  up|down [delay MS] [kbit N] [garble SHARE] [hold]   that direction, from now on\n"
    "  hold                                                a black hole\n"
    "  heal                                                a network as it should be\n"
    "  cut                                                 end all connections\n"
    "  half-open                                           end them on the server's side alone\n";

// False: not understood.
bool read_faults(std::istream& words, LinkFaults* faults) {
  std::string word;
  double number = 0;
  while (words >> word) {
    if (word == "hold") {
      faults->held = true;
      continue;
    }
    if (!(words >> number) || number < 0 || number > 1e6) return false;
    if (word == "delay")
      faults->delay_us = static_cast<TimeUs>(number * 1000);
    else if (word == "kbit")
      faults->bits_per_s = number * 1000;
    else if (word == "garble")
      faults->garbled_share = number;
    else
      return false;
  }
  return true;
}

bool obey(const std::string& line, Proxy* proxy) {
  std::istringstream words(line);
  std::string order;
  if (!(words >> order)) return true;
  LinkFaults faults;
  if (!read_faults(words, &faults)) return false;
  if (order == "up")
    proxy->set_up(faults);
  else if (order == "down")
    proxy->set_down(faults);
  else if (order == "hold")
    proxy->hold();
  else if (order == "heal")
    proxy->heal();
  else if (order == "cut")
    proxy->cut();
  else if (order == "half-open")
    proxy->half_open();
  else
    return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || std::string(argv[1]).find(':') == std::string::npos) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  Result<std::unique_ptr<Proxy>> proxy = Proxy::start(
      {.target = argv[1], .seed = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 1});
  if (!proxy) {
    std::fprintf(stderr, "%s\n", proxy.error().message().c_str());
    return 1;
  }
  std::printf("listening on %s\n", (*proxy)->address().c_str());
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line))
    if (!obey(line, proxy->get())) std::fputs(kUsage, stderr);
  return 0;
}
