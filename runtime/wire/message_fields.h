// What messages.fbs says of a message's fields, for programs that tell people what travels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct MessageField {
  std::string name;    // as in the schema; of a list's entries "evaluations.rows"
  uint32_t bytes = 0;  // of a number; 0: a text or a list, as long as it is
};

// Of the message of this name, in the order of their ids. Empty: there is none.
std::vector<MessageField> message_fields(std::string_view message);

}  // namespace paceline
