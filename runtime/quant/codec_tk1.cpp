// TK1: the largest 1 % of each group, 41 of 4,096 elements.
#include "runtime/quant/sparse_groups.h"

namespace paceline {

constinit const BlockCoder block_coder_tk1 =
    sparse_coder<1>({CodecId::kTk1, "tk1", 0.16796875,
                     "the largest 1 % and their places: thinnest links", true, 0.9});

}  // namespace paceline
