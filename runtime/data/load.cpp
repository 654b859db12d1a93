#include "runtime/data/load.h"

#include <utility>

#include "runtime/base/files.h"
#include "runtime/data/gzip.h"

namespace paceline {

std::string_view text_of(ByteSpan content) {
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

tl::unexpected<Status> fail_in_file(const std::string& path, const Status& error) {
  return fail(Status(error.code(), path + ": " + error.message()));
}

std::string quote_for_message(std::string_view text) {
  constexpr size_t kBytesMax = 40;
  std::string_view shown = text.substr(0, kBytesMax);
  // A UTF-8 character is not cut in two.
  if (shown.size() < text.size())
    while (!shown.empty() && (static_cast<unsigned char>(text[shown.size()]) & 0xC0) == 0x80)
      shown.remove_suffix(1);
  std::string quoted = "'";
  for (const char c : shown) {
    const auto code = static_cast<unsigned char>(c);
    quoted += code < 0x20 || code == 0x7f ? '?' : c;
  }
  return quoted + (shown.size() < text.size() ? "...'" : "'");
}

Result<Bytes> load_file(const std::string& path, uint64_t bytes_max) {
  PACELINE_ASSIGN(Bytes content, read_file(path, bytes_max));
  if (content.empty()) return fail(Code::kCorrupt, "%s: the file is empty", path.c_str());
  if (!is_gzip(content)) return content;
  Result<Bytes> unpacked = gunzip(content, bytes_max);
  if (!unpacked) return fail_in_file(path, unpacked.error());
  if (unpacked->empty()) return fail(Code::kCorrupt, "%s: the gzip file is empty", path.c_str());
  return unpacked;
}

}  // namespace paceline
