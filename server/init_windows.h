// What `edge_server init` proposes for rows in time: how many make a sample, and a net for them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/table_profile.h"

namespace paceline {

struct InitOptions;

struct WindowChoice {
  uint32_t rows = 1;  // of a sample
  uint32_t stride = 1;
  uint32_t horizon = 0;
  const ColumnProfile* time = nullptr;  // none: the order of rows is all that is known
  bool used() const { return rows > 1 || horizon > 0; }
  double gap_max_s() const;
};

// `table` must outlive the choice.
WindowChoice choose_windows(const TableProfile& table, const InitOptions& options);

// The keys of [data], commented; empty where a sample is a row.
std::string window_keys(const WindowChoice& windows);

// The [[layer]]s of a small convolutional net from [columns][rows] to `outputs`.
std::string window_layers(const WindowChoice& windows, size_t outputs);

// "windows   16 rows, ...", with a line's end; empty for rows without times that are samples.
std::string window_summary(const WindowChoice& windows);

}  // namespace paceline
