// A folder of its own for one test, removed with everything in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/check.h"

namespace paceline::test {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "paceline-XXXXXX").string()) {
    PACELINE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file and returns its path.
  std::string write(const std::string& name, ByteSpan bytes) const {
    std::ofstream stream(file(name), std::ios::binary | std::ios::trunc);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    stream.close();
    PACELINE_CHECK(stream.good());
    return file(name);
  }
  std::string write(const std::string& name, std::string_view text) const {
    return write(name, std::as_bytes(std::span(text)));
  }

 private:
  std::string path_;
};

}  // namespace paceline::test
