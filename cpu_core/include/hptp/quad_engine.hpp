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
  // Whether its tiles can be made to begin with lines of a destination.
  static bool serves(const Plan& plan, const uint8_t* dst) {
    return behind_line(dst) == 0 ||
           (plan.shift_rows > 0 && behind_line(dst) % plan.elem_bytes == 0);
  }

  QuadEngine(const Plan& plan, const uint8_t* dst, uint8_t* buffers)
      : plan_(plan),
        shift_rows_(behind_line(dst) / plan.elem_bytes),
        front_(buffers),
        back_(buffers + tile_bytes(plan)) {}

  static int64_t buffer_bytes(const Plan& plan) { return 2 * tile_bytes(plan); }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = shifted(walk.tile());
    start_loading(tile);
    while (loads()) load_rest_of_rows();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      std::swap(front_, back_);
      walk.advance();
      const Tile next = shifted(walk.tile());
      if (i < num_tiles) start_loading(next);
      write(tile);
      while (loads()) load_rest_of_rows();
      tile = next;
    }
  }

 private:
  static int64_t behind_line(const uint8_t* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & (kLineBytes - 1));
  }

  static int64_t tile_bytes(const Plan& plan) {
    return ceil_div(plan.rows.elems + plan.shift_rows, kQuadRows) * plan.in_pitch_bytes;
  }

  // Where the destination begins so many rows behind a line, tiles begin so many rows earlier: the
  // first one is shorter, and the last one longer.
  Tile shifted(Tile tile) const {
    if (tile.first) {
      tile.rows -= tile.last ? 0 : shift_rows_;
    } else {
      tile.src -= shift_rows_ * plan_.row_stride_bytes;
      tile.dst -= shift_rows_ * plan_.elem_bytes;
      tile.rows += tile.last ? shift_rows_ : 0;
    }
    return tile;
  }

  // From here on loads() is true until all rows of the tile are in the front buffer.
  void start_loading(const Tile& tile) {
    src_ = tile.src;
    num_rows_ = tile.rows;
    row_bytes_ = tile.columns * plan_.elem_bytes;
    row_ = 0;
    start_rows();
  }

  int64_t step_bytes() const { return kQuadRows * plan_.quads->row_step_bytes; }

  bool loads() const { return row_ < num_rows_; }

  // Prefetched are the next four rows; behind the last, those of the tile that continues this one.
  // Rows that follow one another are one stream, and prefetched in its order: NHWC to NCHW went
  // from 50 to 75 % of a copy's speed. Where there are fewer than four, the last one stands in.
  void start_rows() {
    rows_.at = 0;
    rows_.out = front_ + row_ / kQuadRows * plan_.in_pitch_bytes;
    const int64_t* offsets = plan_.src_offsets.data();
    const bool adjacent = offsets[1] - offsets[0] == row_bytes_;
    rows_.ahead_stride = adjacent ? kQuadRows : 1;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      const int64_t row = std::min(row_ + k, num_rows_ - 1);
      const int64_t next = row + kQuadRows;
      rows_.from[k] = src_ + offsets[row];
      rows_.ahead[k] = adjacent
                           ? rows_.from[0] + kQuadRows * row_bytes_ + k * kLineBytes
                           : src_ + (next < num_rows_ ? offsets[next] : offsets[k] + row_bytes_);
    }
  }

  void load_rest_of_rows() {
    plan_.quads->load(rows_, row_bytes_);
    row_ += kQuadRows;
    if (loads()) start_rows();
  }

  void write(const Tile& tile) {
    const int64_t bytes = tile.rows * plan_.elem_bytes;
    const bool exchanges = bytes % step_bytes() == 0 && behind_line(tile.dst) == 0;
    QuadColumns columns{
        back_, plan_.in_pitch_bytes, tile.dst, plan_.dst_offsets.data(), tile.columns, bytes};
    for (int64_t left = tile.columns; left > 0; left -= columns.num_columns) {
      columns.num_columns = left;
      if (exchanges && loads()) {
        exchange(&columns);
      } else {
        plan_.quads->write(columns);
      }
      columns.quads += columns.num_columns * kQuadRows * plan_.elem_bytes;
      columns.dst_offsets += columns.num_columns;
    }
  }

  // Writes as many columns as the rows that are coming have steps for, and loads those; if there
  // are none, it loads what the rows have left.
  void exchange(QuadColumns* columns) {
    const int64_t bytes = columns->column_bytes / kQuadRows;  // of each row, for a column
    columns->num_columns = std::min(columns->num_columns, (row_bytes_ - rows_.at) / bytes);
    plan_.quads->exchange(*columns, rows_);
    rows_.at += columns->num_columns * bytes;
    if (row_bytes_ - rows_.at < bytes) load_rest_of_rows();
  }

  const Plan& plan_;
  const int64_t shift_rows_;
  uint8_t* front_;  // the quads of the next tile
  uint8_t* back_;   // of this one

  const uint8_t* src_ = nullptr;
  int64_t num_rows_ = 0;
  int64_t row_bytes_ = 0;
  int64_t row_ = 0;  // of those coming now
  QuadRows rows_{};
};

}  // namespace detail
}  // namespace hptp
