// What to do for a problem, decided without touching data: immutable, printable, allocation-free.
//
// Every problem is walked as a set of two-axis tiles. One axis is the destination's innermost, the
// other the source's innermost; all others, and the tiles of these two, are looped over outside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "cpus.hpp"
#include "problem.hpp"

namespace hptp {

struct Plan {
  Problem problem;
  int num_threads;
  const char* kernel;
  const char* isa;

  int row_axis;  // the source's innermost axis; -1 when it is the destination's too
  int64_t tile_rows;
  int64_t tile_columns;  // along the last axis
  int64_t num_tiles;
};

namespace detail {

constexpr int64_t kTileBytes = 16 << 10;

// The axis along which the source is densest.
inline int densest_src_axis(const Problem& problem) {
  int densest = problem.ndim - 1;
  for (int i = problem.ndim - 1; i >= 0; --i) {
    const uint64_t stride = magnitude(problem.axes[i].src_stride_bytes);
    if (stride != 0 && stride < magnitude(problem.axes[densest].src_stride_bytes)) densest = i;
  }
  return densest;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a - 1) / b + 1; }

inline bool copies_rows(const Problem& problem) {
  if (problem.ndim == 0) return true;
  const Axis& last = problem.axes[problem.ndim - 1];
  return last.src_stride_bytes == problem.elem_bytes && last.dst_stride_bytes == problem.elem_bytes;
}

}  // namespace detail

inline Plan make_plan(const Problem& problem, int num_threads) {
  Plan plan{};
  plan.problem = problem;
  plan.num_threads = resolve_threads(num_threads, static_cast<uint64_t>(num_bytes(problem)));
  plan.isa = "scalar";
  plan.row_axis = -1;
  plan.tile_rows = plan.tile_columns = plan.num_tiles = 1;
  plan.kernel = detail::copies_rows(problem) ? "rows" : "tiles";
  if (num_bytes(problem) == 0) {
    plan.kernel = "nothing";
    plan.num_tiles = 0;
    return plan;
  }
  if (problem.ndim == 0) return plan;

  const int last = problem.ndim - 1;
  const int64_t elems = std::max<int64_t>(detail::kTileBytes / problem.elem_bytes, 1);
  const int densest = detail::densest_src_axis(problem);
  if (densest != last && !detail::copies_rows(problem)) {
    plan.row_axis = densest;
    while (plan.tile_rows * plan.tile_rows < elems) plan.tile_rows *= 2;
  }
  plan.tile_columns = std::max<int64_t>(elems / plan.tile_rows, 1);
  for (int i = 0; i < problem.ndim; ++i) {
    const int64_t step = i == last ? plan.tile_columns : i == plan.row_axis ? plan.tile_rows : 1;
    plan.num_tiles *= detail::ceil_div(problem.axes[i].size, step);
  }
  return plan;
}

inline std::string describe(const Plan& plan) {
  std::string text = std::string(plan.kernel) + ", " + plan.isa + ": ";
  text += std::to_string(plan.problem.elem_bytes) + "-byte elements";
  for (int i = 0; i < plan.problem.ndim; ++i) {
    text += (i == 0 ? ", axes " : " ") + std::to_string(plan.problem.axes[i].size);
  }
  text += "; tiles of " + std::to_string(plan.tile_rows) + "x" + std::to_string(plan.tile_columns);
  return text + ", threads " + std::to_string(plan.num_threads);
}

}  // namespace hptp
