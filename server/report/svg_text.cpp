#include "server/report/svg_text.h"

#include "runtime/base/status.h"
#include "runtime/base/utf8.h"

namespace paceline {

namespace {

std::string escape(const std::string& text) {
  const bool utf8 = is_utf8(text);
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '"')
      escaped += "&quot;";
    else if (code < 0x20 || code == 0x7f)
      escaped += ' ';
    else
      escaped += code >= 0x80 && !utf8 ? '?' : c;
  }
  return escaped;
}

}  // namespace

void SvgText::line(double x1, double y1, double x2, double y2, const char* colour) {
  add(format_text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1,
                  x2, y2, colour));
}

void SvgText::rect(double left, double top, double width, double height, const char* colour) {
  add(format_text("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                  left, top, width, height, colour));
}

void SvgText::text(double x, double y, const std::string& text, const SvgStyle& style) {
  add(
      format_text("<text transform=\"translate(%.1f %.1f)%s\" text-anchor=\"%s\" "
                  "fill=\"%s\" font-size=\"%d\"%s>",
                  x, y, style.upwards ? " rotate(-90)" : "", style.anchor, style.colour, style.size,
                  style.bold ? " font-weight=\"600\"" : ""));
  add(escape(text) + "</text>\n");
}

std::string svg_file(const std::string& title, double width, double height,
                     const std::string& body) {
  return format_text(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
             "viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
             "font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"13\">\n",
             width, height, width, height) +
         "<title>" + escape(title) +
         "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" + body + "</svg>\n";
}

}  // namespace paceline
