#include "runtime/wire/message_fields.h"

#include "messages_generated.h"

namespace paceline {

namespace {

// By flatbuffers::ElementaryType.
constexpr uint32_t kNumberBytes[] = {1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

void add_fields(const flatbuffers::TypeTable& table, const std::string& prefix,
                std::vector<MessageField>* fields) {
  for (size_t i = 0; i < table.num_elems; ++i) {
    const flatbuffers::TypeCode& code = table.type_codes[i];
    const bool number = code.base_type < std::size(kNumberBytes) && code.is_repeating == 0;
    const std::string name = prefix + table.names[i];
    fields->push_back({name, number ? kNumberBytes[code.base_type] : 0});
    if (code.base_type == flatbuffers::ET_SEQUENCE)
      add_fields(*table.type_refs[code.sequence_ref](), name + ".", fields);
  }
}

}  // namespace

std::vector<MessageField> message_fields(std::string_view message) {
  std::vector<MessageField> fields;
  const flatbuffers::TypeTable& body = *wire::BodyTypeTable();
  for (size_t i = 0; i < body.num_elems; ++i) {
    if (body.names[i] != message || body.type_codes[i].sequence_ref < 0) continue;
    add_fields(*body.type_refs[body.type_codes[i].sequence_ref](), "", &fields);
  }
  return fields;
}

}  // namespace paceline
