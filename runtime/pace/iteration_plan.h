// How many iterations each worker does between two barriers, so that all arrive together: as many
// as fit into the time that the slowest needs for its own (the plan of adaptive parallel).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/pace/clock_table.h"

namespace paceline {

class IterationPlan {
 public:
  // slowest_iterations  what the slowest worker does between two barriers
  explicit IterationPlan(uint32_t slowest_iterations) : slowest_iterations_(slowest_iterations) {}

  // A finished iteration of row.iteration_us.
  void observe(const PaceRow& row);
  // Forgets who is no member and takes in who is new.
  void follow(const ClockTable& members);
  // From the smoothed times: k = floor(slowest_iterations x the longest / own), kept where it would
  // change by less than 15 %.
  void replan(const ClockTable& members);

  uint32_t iterations(uint32_t worker_id) const {
    return worker_id < workers_.size() ? workers_[worker_id].iterations : 1;
  }

 private:
  struct Worker {
    double iteration_us = 0;  // smoothed; 0: none finished
    uint32_t iterations = 1;
    bool planned = false;
  };
  Worker& worker_of(uint32_t worker_id);

  uint32_t slowest_iterations_;
  std::vector<Worker> workers_;  // by worker id
};

}  // namespace paceline
