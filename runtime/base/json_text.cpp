#include "runtime/base/json_text.h"

#include <charconv>

#include "runtime/base/utf8.h"

namespace paceline {

namespace {

void append_utf8(uint32_t code, std::string* text) {
  const auto put = [&](uint32_t byte) { *text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += format_text("\\u%04x", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

tl::unexpected<Status> JsonReader::wrong(const char* what) const {
  return fail(Code::kCorrupt, "JSON: %s expected at byte %zu", what, position_);
}

void JsonReader::skip_blanks() {
  position_ = std::min(text_.find_first_not_of(" \t\r\n", position_), text_.size());
}

bool JsonReader::take(char mark) {
  skip_blanks();
  if (position_ == text_.size() || text_[position_] != mark) return false;
  ++position_;
  return true;
}

Status JsonReader::expect(char mark) {
  if (take(mark)) return {};
  const char what[] = {'\'', mark, '\'', '\0'};
  return wrong(what);
}

Result<std::string_view> JsonReader::raw_value() {
  skip_blanks();
  const size_t begin = position_;
  PACELINE_TRY(skip(0));
  return text_.substr(begin, position_ - begin);
}

Status JsonReader::expect_end() {
  skip_blanks();
  if (position_ != text_.size()) return wrong("the end");
  return {};
}

Result<std::string> JsonReader::string() {
  PACELINE_TRY(expect('"'));
  std::string text;
  for (;;) {
    if (position_ == text_.size()) return wrong("a closing quote");
    const char c = text_[position_];
    if (static_cast<unsigned char>(c) < 0x20) return wrong("no control byte");
    ++position_;
    if (c == '"') break;
    if (c == '\\')
      PACELINE_TRY(escape(&text));
    else
      text += c;
  }
  if (!is_utf8(text)) return wrong("UTF-8");
  return text;
}

Result<uint32_t> JsonReader::four_hex() {
  const std::string_view digits = text_.substr(position_, 4);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4)
    return wrong("four hexadecimal digits");
  position_ += 4;
  return code;
}

Status JsonReader::escape(std::string* text) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = position_ < text_.size() ? text_[position_] : '\0';
  if (const size_t known = kNames.find(c); known != std::string_view::npos) {
    *text += kMeanings[known];
    ++position_;
    return {};
  }
  if (c != 'u') return wrong("an escape");
  ++position_;
  PACELINE_ASSIGN(uint32_t code, four_hex());
  if (code >= 0xD800 && code < 0xDC00) {
    if (text_.substr(position_, 2) != "\\u") return wrong("the second half of a pair");
    position_ += 2;
    PACELINE_ASSIGN(const uint32_t low, four_hex());
    if (low < 0xDC00 || low > 0xDFFF) return wrong("the second half of a pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code == 0) return wrong("a character other than zero");
  append_utf8(code, text);  // a lone second half is no UTF-8, which string() finds
  return {};
}

Result<uint64_t> JsonReader::whole() {
  skip_blanks();
  const std::string_view rest = text_.substr(position_);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) return wrong("a whole number");
  position_ += static_cast<size_t>(end - rest.data());
  if (position_ < text_.size() && std::string_view(".eE").find(text_[position_]) != rest.npos)
    return wrong("a whole number");
  return value;
}

Status JsonReader::skip(int depth) {
  if (depth == kDepthMax) return wrong("less nesting");
  skip_blanks();
  const char first = position_ < text_.size() ? text_[position_] : '\0';
  if (first == '"') {
    PACELINE_ASSIGN(const std::string text, string());
    return {};
  }
  if (first == '{' || first == '[') {
    const char last = first == '{' ? '}' : ']';
    ++position_;
    if (take(last)) return {};
    do {
      if (first == '{') {
        PACELINE_ASSIGN(const std::string key, string());
        PACELINE_TRY(expect(':'));
      }
      PACELINE_TRY(skip(depth + 1));
    } while (take(','));
    return expect(last);
  }
  const size_t end = std::min(
      text_.find_first_not_of("+-.0123456789abcdefghijklmnopqrstuvwxyzE", position_), text_.size());
  if (end == position_) return wrong("a value");
  position_ = end;
  return {};
}

}  // namespace paceline
