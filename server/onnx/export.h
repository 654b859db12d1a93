// A trained model as ONNX: raw rows in, probabilities or numbers in the label's unit out.
#pragma once

#include <span>

#include "runtime/data/schema.h"
#include "runtime/train/model.h"
#include "server/onnx/graph.h"

namespace paceline {

// Input "rows" is [batch, values of a row] as tables have them, and what [data] does to them comes
// first. Output is "probabilities" or "numbers". Columns, label and classes are in the
// metadata.
//   parameters  [model.layout.element_count()]
OnnxModel export_onnx(const ModelSpec& model, const DataSchema& schema,
                      std::span<const float> parameters);

}  // namespace paceline
