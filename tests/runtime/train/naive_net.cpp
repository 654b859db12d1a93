#include "tests/runtime/train/naive_net.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/train/layer.h"
#include "tests/runtime/train/nets.h"

namespace paceline::test {
namespace {

using Values = std::vector<double>;

// One row through one layer; x(c, y, x) outside the image is zero.
struct Image {
  const Values& values;
  const std::vector<uint32_t>& shape;
  double at(int64_t c, int64_t y, int64_t x) const {
    if (y < 0 || x < 0 || y >= shape[1] || x >= shape[2]) return 0.0;
    return values[static_cast<size_t>((c * shape[1] + y) * shape[2] + x)];
  }
};

Values dense(const LayerSpec& layer, const Values& x, const double* weight, const double* bias) {
  Values y;
  for (size_t unit = 0; unit < layer.units; ++unit) {
    double sum = bias[unit];
    for (size_t i = 0; i < x.size(); ++i) sum += weight[unit * x.size() + i] * x[i];
    y.push_back(sum);
  }
  return y;
}

// A signal is an image of height 1.
std::vector<uint32_t> image_shape(const LayerSpec& layer) {
  if (!layer.type.ends_with("1d")) return layer.input_shape;
  const auto length = layer.input_shape.back();
  return {static_cast<uint32_t>(feature_count(layer.input_shape)) / length, 1, length};
}

Values convolution(const LayerSpec& layer, const Values& x, const double* weight,
                   const double* bias) {
  const std::vector<uint32_t> shape = image_shape(layer);
  const Image image{x, shape};
  const bool flat = layer.type == "conv1d";
  const int64_t channels = shape[0] / layer.groups, filters = layer.filters / layer.groups;
  const int64_t rows = flat ? 1 : layer.kernel, columns = layer.kernel;
  const int64_t stride = layer.stride, dilation = layer.dilation;
  const int64_t above = flat ? 0 : layer.padding, left = layer.padding;
  Values y;
  for (int64_t f = 0; f < layer.output_shape[0]; ++f)
    for (int64_t row = 0; row < layer.output_shape[1]; ++row)
      for (int64_t column = 0; column < layer.output_shape[2]; ++column) {
        double sum = bias[f];
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t ky = 0; ky < rows; ++ky)
            for (int64_t kx = 0; kx < columns; ++kx)
              sum += weight[((f * channels + c) * rows + ky) * columns + kx] *
                     image.at(f / filters * channels + c, row * stride + ky * dilation - above,
                              column * stride + kx * dilation - left);
        y.push_back(sum);
      }
  return y;
}

Values pooling(const LayerSpec& layer, const Values& x) {
  const std::vector<uint32_t> shape = image_shape(layer);
  const Image image{x, shape};
  const bool global = layer.type == "globalavgpool";
  const int64_t rows = global                           ? layer.input_shape[1]
                       : layer.type.ends_with("pool1d") ? 1
                                                        : layer.kernel;
  const int64_t columns = global ? layer.input_shape[2] : layer.kernel;
  const int64_t height = global ? 1 : layer.output_shape[1],
                width = global ? 1 : layer.output_shape[2];
  const int64_t stride = layer.stride;
  Values y;
  for (int64_t c = 0; c < layer.output_shape[0]; ++c)
    for (int64_t row = 0; row < height; ++row)
      for (int64_t column = 0; column < width; ++column) {
        double largest = -INFINITY, sum = 0.0;
        for (int64_t ky = 0; ky < rows; ++ky)
          for (int64_t kx = 0; kx < columns; ++kx) {
            const double value = image.at(c, row * stride + ky, column * stride + kx);
            largest = std::max(largest, value);
            sum += value;
          }
        const double mean = sum / static_cast<double>(rows * columns);
        y.push_back(layer.type.starts_with("max") ? largest : mean);
      }
  return y;
}

Values normalization(const LayerSpec& layer, const Values& x, const double* scale,
                     const double* bias) {
  const bool grouped = layer.type == "group_norm";
  const size_t group = x.size() / (grouped ? layer.groups : 1);
  const size_t shared = grouped ? x.size() / layer.input_shape[0] : 1;
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t begin = i / group * group;
    double mean = 0.0, variance = 0.0;
    for (size_t j = begin; j < begin + group; ++j) mean += x[j] / static_cast<double>(group);
    for (size_t j = begin; j < begin + group; ++j)
      variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(group);
    const double normal = (x[i] - mean) / std::sqrt(variance + static_cast<double>(layer.epsilon));
    y[i] = normal * (1.0 + scale[i / shared]) + bias[i / shared];
  }
  return y;
}

// A cell over the steps of a signal; gates in the order of recurrent.h.
Values recurrent(const LayerSpec& layer, const Values& x, const double* weight,
                 const double* bias) {
  const size_t length = layer.input_shape.back(), channels = x.size() / length;
  const size_t units = layer.units, columns = channels + units;
  const auto sigmoid = [](double value) { return 1.0 / (1.0 + std::exp(-value)); };
  Values h(units), c(units), states;
  for (size_t step = 0; step < length; ++step) {
    Values next = h;
    for (size_t u = 0; u < units; ++u) {
      const auto part = [&](size_t gate, bool recurrent) {
        const double* w = weight + (gate * units + u) * columns;
        double sum = 0.0;
        for (size_t i = 0; i < channels && !recurrent; ++i) sum += w[i] * x[i * length + step];
        for (size_t i = 0; i < units && recurrent; ++i) sum += w[channels + i] * h[i];
        return sum;
      };
      const auto gate = [&](size_t number) {
        return part(number, false) + part(number, true) + bias[number * units + u];
      };
      if (layer.type == "gru") {
        const double r = sigmoid(gate(0)), z = sigmoid(gate(1));
        const double n = std::tanh(part(2, false) + bias[2 * units + u] +
                                   r * (part(2, true) + bias[3 * units + u]));
        next[u] = (1 - z) * n + z * h[u];
      } else {
        c[u] = sigmoid(gate(1) + 1) * c[u] + sigmoid(gate(0)) * std::tanh(gate(2));
        next[u] = sigmoid(gate(3)) * std::tanh(c[u]);
      }
    }
    h = next;
    states.insert(states.end(), h.begin(), h.end());
  }
  if (!layer.sequence) return h;
  Values y(states.size());
  for (size_t i = 0; i < y.size(); ++i) y[i % units * length + i / units] = states[i];
  return y;
}

Values embedding(const LayerSpec& layer, const Values& x, const double* weight,
                 const double* bias) {
  Values y(x.size() * layer.units);
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t u = 0; u < layer.units; ++u) {
      const double entry = std::clamp(std::round(x[i]), 0.0, layer.entries - 1.0);
      y[u * x.size() + i] = weight[static_cast<size_t>(entry) * layer.units + u] + bias[u];
    }
  return y;
}

Values transpose(const LayerSpec& layer, const Values& x) {
  const size_t length = layer.input_shape.back();
  Values y;
  for (size_t step = 0; step < length; ++step)
    for (size_t i = step; i < x.size(); i += length) y.push_back(x[i]);
  return y;
}

// Layers that take each value for itself.
double activation(const LayerSpec& layer, double x) {
  if (layer.type == "relu") return std::max(x, 0.0);
  if (layer.type == "leaky_relu") return x < 0 ? static_cast<double>(layer.slope) * x : x;
  if (layer.type == "tanh") return std::tanh(x);
  if (layer.type == "sigmoid") return 1.0 / (1.0 + std::exp(-x));
  if (layer.type == "dropout" && layer.rate == 0.0f) return x;
  PACELINE_CHECK(layer.type == "gelu");
  return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
}

// Layers with one input; `weight` and `bias` of those that have parameters.
Values layer_outputs(const LayerSpec& layer, Values values, const double* weight,
                     const double* bias) {
  if (layer.type == "dense") return dense(layer, values, weight, bias);
  if (layer.type.starts_with("conv")) return convolution(layer, values, weight, bias);
  if (layer.type.find("pool") != std::string::npos) return pooling(layer, values);
  if (layer.type.ends_with("_norm")) return normalization(layer, values, weight, bias);
  if (layer.type == "lstm" || layer.type == "gru") return recurrent(layer, values, weight, bias);
  if (layer.type == "embedding") return embedding(layer, values, weight, bias);
  if (layer.type == "transpose") return transpose(layer, values);
  if (layer.type != "flatten" && layer.type != "reshape")
    for (double& value : values) value = activation(layer, value);
  return values;
}

// One row of a layer's inputs.
Values joined_row(const LayerSpec& layer, const std::vector<std::vector<Values>>& all, size_t row) {
  Values joined;
  for (const uint32_t input : layer.inputs)
    if (layer.type == "concat" || joined.empty())
      joined.insert(joined.end(), all[input][row].begin(), all[input][row].end());
    else
      for (size_t i = 0; i < joined.size(); ++i) joined[i] += all[input][row][i];
  return joined;
}

std::vector<Values> batch_norm(const LayerSpec& layer, std::vector<Values> rows,
                               const double* scale, const double* bias) {
  const size_t channels = layer.input_shape[0], plane = rows[0].size() / channels;
  const auto count = static_cast<double>(rows.size() * plane);
  for (size_t channel = 0; channel < channels; ++channel) {
    const auto each = [&](auto take) {
      for (Values& row : rows)
        for (size_t i = channel * plane; i < (channel + 1) * plane; ++i) take(row[i]);
    };
    double mean = 0, variance = 0;
    each([&](double x) { mean += x / count; });
    each([&](double x) { variance += (x - mean) * (x - mean) / count; });
    const double deviation = std::sqrt(variance + static_cast<double>(layer.epsilon));
    each([&](double& x) { x = (x - mean) / deviation * (1.0 + scale[channel]) + bias[channel]; });
  }
  return rows;
}

// Of each row, while learning.
std::vector<Values> batch_outputs(const ModelSpec& spec, std::span<const double> parameters,
                                  std::span<const float> features) {
  const size_t row_count = features.size() / row_floats(spec);
  std::vector<std::vector<Values>> all(1);
  for (size_t row = 0; row < row_count; ++row) {
    const auto values = features.subspan(row * row_floats(spec), row_floats(spec));
    all[0].emplace_back(values.begin(), values.end());
  }
  size_t tensor = 0;
  for (const LayerSpec& layer : spec.layers) {
    const double *weight = nullptr, *bias = nullptr;
    const LayerType& type = *find_layer_type(layer.type);
    if (type.append_tensors) {
      weight = parameters.data() + spec.layout.tensors()[tensor].offset;
      bias = parameters.data() + spec.layout.tensors()[tensor + 1].offset;
    }
    tensor += type.tensor_count();
    std::vector<Values> rows;
    for (size_t row = 0; row < row_count; ++row) {
      Values joined = joined_row(layer, all, row);
      const bool done = type.joins || type.has_statistics;
      rows.push_back(done ? std::move(joined)
                          : layer_outputs(layer, std::move(joined), weight, bias));
    }
    if (type.has_statistics) rows = batch_norm(layer, std::move(rows), weight, bias);
    all.push_back(std::move(rows));
  }
  return all.back();
}

double class_loss(const Values& values, int32_t label) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (double value : values) sum += std::exp(value - largest);
  return std::log(sum) + largest - values[static_cast<size_t>(label)];
}

double number_loss(const Values& values, std::span<const float> targets, const LossOptions& loss) {
  const auto delta = static_cast<double>(loss.huber_delta);
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = std::abs(values[i] - static_cast<double>(targets[i]));
    if (loss.kind == LossKind::kMse)
      sum += off * off;
    else
      sum += off <= delta ? off * off / 2 : delta * (off - delta / 2);
  }
  return sum / static_cast<double>(values.size());
}

}  // namespace

double naive_loss(const ModelSpec& spec, std::span<const double> parameters,
                  std::span<const float> features, const Targets& targets,
                  const LossOptions& loss) {
  const std::vector<Values> rows = batch_outputs(spec, parameters, features);
  const size_t width = spec.output_count;
  double sum = 0.0;
  for (size_t row = 0; row < rows.size(); ++row)
    sum += spec.class_count > 0
               ? class_loss(rows[row], targets.labels()[row])
               : number_loss(rows[row], targets.numbers().subspan(row * width, width), loss);
  return sum / static_cast<double>(rows.size());
}

double naive_derivative(const ModelSpec& spec, std::span<const float> parameters, size_t index,
                        std::span<const float> features, const Targets& targets,
                        const LossOptions& loss) {
  constexpr double kStep = 1e-6;
  Values moved(parameters.begin(), parameters.end());
  const double middle = moved[index];
  moved[index] = middle + kStep;
  const double above = naive_loss(spec, moved, features, targets, loss);
  moved[index] = middle - kStep;
  const double below = naive_loss(spec, moved, features, targets, loss);
  return (above - below) / (2.0 * kStep);
}

}  // namespace paceline::test
