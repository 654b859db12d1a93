// An ONNX model in memory: what of ModelProto a net's arithmetic needs.
//
// Source: github.com/onnx/onnx, onnx.proto3. Weights are taken as float32 (float64 is rounded) and
// whole numbers as int64; other types, data outside the file, control flow and sparse tensors are
// refused where they occur.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

enum class OnnxType : int32_t { kNone = 0, kFloat = 1, kInt32 = 6, kInt64 = 7, kDouble = 11 };

struct OnnxTensor {
  std::string name;
  std::vector<int64_t> dims;  // their product is the number of values
  bool is_real = true;        // else `wholes` holds the values
  std::vector<float> reals;
  std::vector<int64_t> wholes;
  size_t count() const { return is_real ? reals.size() : wholes.size(); }
};

OnnxTensor real_tensor(std::string name, std::vector<int64_t> dims, std::vector<float> values);
OnnxTensor whole_tensor(std::string name, std::vector<int64_t> values);  // a list

struct OnnxAttribute {
  enum class Kind : int32_t {
    kReal = 1,
    kWhole = 2,
    kText = 3,
    kTensor = 4,
    kReals = 6,
    kWholes = 7,
    kOther = 0
  };
  Kind kind = Kind::kOther;
  float real = 0;
  int64_t whole = 0;
  std::string text;
  OnnxTensor tensor;
  std::vector<float> reals;
  std::vector<int64_t> wholes;
};

struct OnnxNode {
  std::string name;
  std::string op;
  std::string domain;
  std::vector<std::string> inputs;  // empty where one is left out
  std::vector<std::string> outputs;
  std::map<std::string, OnnxAttribute, std::less<>> attributes;

  std::string_view input(size_t index) const {
    return index < inputs.size() ? std::string_view(inputs[index]) : std::string_view();
  }
  int64_t whole(std::string_view key, int64_t otherwise) const;
  float real(std::string_view key, float otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::vector<int64_t> wholes(std::string_view key) const;  // empty if there is none
};

OnnxAttribute whole_attribute(int64_t value);
OnnxAttribute real_attribute(float value);
OnnxAttribute wholes_attribute(std::vector<int64_t> values);

struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> dims;  // -1: any; the batch above all
};

struct OnnxModel {
  int64_t opset = 0;            // of the standard operators
  std::vector<OnnxNode> nodes;  // each after those whose outputs it takes
  std::map<std::string, OnnxTensor, std::less<>> constants;  // initializers
  std::vector<OnnxValue> inputs;                             // those that are no constants
  std::vector<OnnxValue> outputs;
  std::map<std::string, std::string> metadata;
};

// Errors: kCorrupt for bytes that are no such model, kUnsupported for one that has what the header
// of this file names, kResourceExhausted above kModelElementsMax values.
Result<OnnxModel> read_onnx(ByteSpan bytes);
// A TensorProto alone, as ONNX's test data has them.
Result<OnnxTensor> read_onnx_tensor(ByteSpan bytes);
Bytes write_onnx(const OnnxModel& model);

}  // namespace paceline
