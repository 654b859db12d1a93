// TK5: the largest 5 % of each group, 205 of 4,096 elements.
#include "runtime/quant/sparse_groups.h"

namespace paceline {

constinit const BlockCoder block_coder_tk5 = sparse_coder<5>(
    {CodecId::kTk5, "tk5", 0.80859375, "the largest 5 % and their places: thin links", true, 0.65});

}  // namespace paceline
