// No instruction for it that we know of: tables serve.
#include "runtime/base/checksum_unit.h"

namespace paceline {

const ChecksumUnit* checksum_unit() { return nullptr; }

}  // namespace paceline
