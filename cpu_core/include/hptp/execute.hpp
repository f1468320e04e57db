// Moves the data of a plan: tiles in the destination's order, split evenly over the threads.
#pragma once

#include <cstdint>
#include <cstring>

#include "plan.hpp"
#include "pool.hpp"
#include "status.hpp"

namespace hptp {
namespace detail {

// One tile: its corner on both sides and its size.
struct Tile {
  const char* src;
  char* dst;
  int64_t rows;
  int64_t columns;
};

// Elements of a constant size are moved by one load and one store; kElemBytes 0 takes any size.
template <int64_t kElemBytes>
void move_tile(const Plan& plan, const Tile& tile) {
  const int64_t elem_bytes = kElemBytes != 0 ? kElemBytes : plan.problem.elem_bytes;
  const Axis& column = plan.problem.axes[plan.problem.ndim - 1];
  const Axis row = plan.row_axis >= 0 ? plan.problem.axes[plan.row_axis] : Axis{1, 0, 0};
  for (int64_t r = 0; r < tile.rows; ++r) {
    const char* src = tile.src + r * row.src_stride_bytes;
    char* dst = tile.dst + r * row.dst_stride_bytes;
    for (int64_t c = 0; c < tile.columns; ++c) {
      std::memcpy(dst + c * column.dst_stride_bytes, src + c * column.src_stride_bytes,
                  static_cast<size_t>(elem_bytes));
    }
  }
}

inline void copy_rows(const Plan& plan, const Tile& tile) {
  std::memcpy(tile.dst, tile.src, static_cast<size_t>(tile.columns * plan.problem.elem_bytes));
}

using MoveTile = void (*)(const Plan&, const Tile&);

inline MoveTile tile_mover(const Problem& problem) {
  if (copies_rows(problem)) return copy_rows;
  switch (problem.elem_bytes) {
    case 1:
      return move_tile<1>;
    case 2:
      return move_tile<2>;
    case 4:
      return move_tile<4>;
    case 8:
      return move_tile<8>;
    case 16:
      return move_tile<16>;
    default:
      return move_tile<0>;
  }
}

// Walks the tiles of a plan in destination order; the position is advanced without divisions.
class TileWalk {
 public:
  TileWalk(const Plan& plan, int64_t first, const void* src, void* dst)
      : problem_(plan.problem),
        plan_(plan),
        src_(static_cast<const char*>(src)),
        dst_(static_cast<char*>(dst)) {
    for (int i = problem_.ndim - 1; i >= 0; --i) {
      const int64_t steps = ceil_div(problem_.axes[i].size, step(i));
      index_[i] = first % steps * step(i);
      first /= steps;
      src_ += index_[i] * problem_.axes[i].src_stride_bytes;
      dst_ += index_[i] * problem_.axes[i].dst_stride_bytes;
    }
  }

  Tile tile() const {
    const int last = problem_.ndim - 1;
    return {src_, dst_, plan_.row_axis < 0 ? 1 : part(plan_.row_axis), last < 0 ? 1 : part(last)};
  }

  void advance() {
    for (int i = problem_.ndim - 1; i >= 0; --i) {
      const Axis& axis = problem_.axes[i];
      src_ += step(i) * axis.src_stride_bytes;
      dst_ += step(i) * axis.dst_stride_bytes;
      index_[i] += step(i);
      if (index_[i] < axis.size) return;
      src_ -= index_[i] * axis.src_stride_bytes;
      dst_ -= index_[i] * axis.dst_stride_bytes;
      index_[i] = 0;
    }
  }

 private:
  int64_t step(int axis) const {
    if (axis == problem_.ndim - 1) return plan_.tile_columns;
    return axis == plan_.row_axis ? plan_.tile_rows : 1;
  }
  int64_t part(int axis) const {
    return std::min(step(axis), problem_.axes[axis].size - index_[axis]);
  }

  const Problem& problem_;
  const Plan& plan_;
  const char* src_;
  char* dst_;
  int64_t index_[kMaxDims];
};

}  // namespace detail

// src and dst point at element 0 and do not overlap.
inline Status execute(const Plan& plan, const void* src, void* dst) {
  const detail::MoveTile move = detail::tile_mover(plan.problem);
  parallel_for(plan.num_tiles, plan.num_threads, [&](int64_t first, int64_t last) {
    detail::TileWalk walk(plan, first, src, dst);
    for (int64_t i = first; i < last; ++i) {
      move(plan, walk.tile());
      walk.advance();
    }
  });
  return Status::ok;
}

}  // namespace hptp
