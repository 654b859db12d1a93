// The bounds of limits.h and the ranges of enums that a message must keep, sent or received.
#pragma once

#include "runtime/base/status.h"
#include "runtime/wire/messages.h"

namespace paceline {

// Errors: kCorrupt, naming the message, the field, its value and what is allowed.
Status within_bounds(const Message& message);

}  // namespace paceline
