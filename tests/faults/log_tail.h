// Reads what a program has added to its log, once.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::test {

class LogTail {
 public:
  explicit LogTail(std::string path) : path_(std::move(path)) {}

  // Whole lines that are new since the last call, without their ends.
  void read(const std::function<void(std::string_view)>& line) {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset_));
    std::string text;
    while (std::getline(file, text)) {
      if (file.eof()) break;  // not whole yet
      offset_ += text.size() + 1;
      line(text);
    }
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  uint64_t offset_ = 0;
};

}  // namespace paceline::test
