// Moves the tiles of a plan by way of quads, on one thread.
//
// The rows of the next tile come while the columns of this one leave, a step of each in turn, as in
// a copy. Four rows at a time come from memory, in runs of 2 KB: the hardware's prefetcher follows
// four streams within their pages, and loses eight. What is written is 256 bytes at a time, whole
// lines past the cache, which reaches the speed of writing in order. Each byte passes the caches
// once on its way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels.hpp"
#include "plan.hpp"
#include "tile_engine.hpp"

namespace hptp {
namespace detail {

class QuadEngine {
 public:
  QuadEngine(const Plan& plan, uint8_t* buffers)
      : plan_(plan), front_(buffers), back_(buffers + tile_bytes(plan)) {}

  static int64_t buffer_bytes(const Plan& plan) { return 2 * tile_bytes(plan); }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = walk.tile();
    start_loading(tile);
    while (loads()) load_rest_of_rows();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      std::swap(front_, back_);
      walk.advance();
      const Tile next = walk.tile();
      if (i < num_tiles) start_loading(next);
      write(tile);
      while (loads()) load_rest_of_rows();
      tile = next;
    }
  }

 private:
  static int64_t tile_bytes(const Plan& plan) {
    return plan.rows.elems / kQuadRows * plan.in_pitch_bytes;
  }

  // From here on loads() is true until all rows of the tile are in the front buffer.
  void start_loading(const Tile& tile) {
    src_ = tile.src;
    num_rows_ = tile.rows;
    row_bytes_ = tile.columns * plan_.elem_bytes;
    row_ = 0;
    start_rows();
  }

  bool loads() const { return row_ < num_rows_; }

  // Prefetched are the next four rows; behind the last, those of the tile that continues this one.
  void start_rows() {
    left_bytes_ = row_bytes_;
    rows_.out = front_ + row_ / kQuadRows * plan_.in_pitch_bytes;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      const int64_t next = row_ + k + kQuadRows;
      rows_.from[k] = src_ + plan_.src_offsets[static_cast<size_t>(row_ + k)];
      rows_.ahead[k] = next < num_rows_
                           ? src_ + plan_.src_offsets[static_cast<size_t>(next)]
                           : src_ + plan_.src_offsets[static_cast<size_t>(k)] + row_bytes_;
    }
  }

  void load_rest_of_rows() {
    plan_.quads->load(rows_, left_bytes_);
    row_ += kQuadRows;
    if (loads()) start_rows();
  }

  void write(const Tile& tile) {
    const int64_t bytes = tile.rows * plan_.elem_bytes;
    const int64_t steps = bytes % kQuadStepBytes == 0 ? bytes / kQuadStepBytes : 0;
    QuadColumns columns{back_,        plan_.in_pitch_bytes,
                        tile.dst,     plan_.dst_offsets.data(),
                        tile.columns, bytes};
    for (int64_t left = tile.columns; left > 0; left -= columns.num_columns) {
      columns.num_columns = left;
      if (loads() && steps != 0) {
        columns.num_columns = std::min(left, left_bytes_ / kLineBytes / steps);
        exchange(columns);
      } else {
        plan_.quads->stream(columns);
      }
      columns.quads += columns.num_columns * kQuadRows * plan_.elem_bytes;
      columns.dst_offsets += columns.num_columns;
    }
  }

  // Writes columns and loads as many lines; if there are none, what the rows have left.
  void exchange(const QuadColumns& columns) {
    plan_.quads->exchange(columns, rows_);
    const int64_t bytes = columns.num_columns * columns.column_bytes / kQuadRows;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      rows_.from[k] += bytes;
      rows_.ahead[k] += bytes;
    }
    rows_.out += kQuadRows * bytes;
    left_bytes_ -= bytes;
    if (left_bytes_ / kLineBytes * kQuadStepBytes < columns.column_bytes) load_rest_of_rows();
  }

  const Plan& plan_;
  uint8_t* front_;  // the quads of the next tile
  uint8_t* back_;   // of this one

  const uint8_t* src_ = nullptr;
  int64_t num_rows_ = 0;
  int64_t row_bytes_ = 0;
  int64_t row_ = 0;  // of those coming now
  int64_t left_bytes_ = 0;
  QuadRows rows_{};
};

}  // namespace detail
}  // namespace hptp
