// Moves the tiles of a plan by way of quads, on one thread.
//
// The rows of the next tile come while the columns of this one leave, a step of each in turn, as in
// a copy. What is written is 256 bytes at a time, whole lines past the cache, which reaches the
// speed of writing in order. Each byte passes the caches once on its way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels.hpp"
#include "plan.hpp"
#include "quad_loader.hpp"
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
        loader_(plan),
        shift_rows_(behind_line(dst) / plan.elem_bytes),
        front_(buffers),
        back_(buffers + tile_bytes(plan)) {}

  static int64_t buffer_bytes(const Plan& plan) { return 2 * tile_bytes(plan); }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = shifted(walk.tile());
    walk.advance();
    Tile next = shifted(walk.tile());
    start_loading(tile, next);
    loader_.load_rest();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      std::swap(front_, back_);
      walk.advance();
      const Tile after = shifted(walk.tile());
      if (i < num_tiles) start_loading(next, after);
      write(tile);
      loader_.load_rest();
      tile = next;
      next = after;
    }
  }

 private:
  static int64_t tile_bytes(const Plan& plan) {
    return ceil_div(plan.rows.elems + plan.shift_rows, kQuadRows) * plan.in_pitch_bytes;
  }

  void start_loading(const Tile& tile, const Tile& next) { loader_.start(tile, next.src, front_); }

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

  void write(const Tile& tile) {
    const int64_t bytes = tile.rows * plan_.elem_bytes;
    const bool exchanges = bytes % plan_.quads->step_bytes() == 0 && behind_line(tile.dst) == 0;
    QuadColumns columns{
        back_, plan_.in_pitch_bytes, tile.dst, plan_.dst_offsets.data(), tile.columns, bytes};
    for (int64_t left = tile.columns; left > 0; left -= columns.num_columns) {
      columns.num_columns = left;
      if (exchanges && left >= plan_.quads->columns_at_once && loader_.loads()) {
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
    const int64_t at_once = plan_.quads->columns_at_once;
    const int64_t bytes = columns->column_bytes / kQuadRows;  // of each row, for a column
    columns->num_columns = std::min(columns->num_columns, loader_.bytes_left() / bytes);
    columns->num_columns -= columns->num_columns % at_once;
    plan_.quads->exchange(*columns, loader_.rows());
    loader_.advance(columns->num_columns * bytes, at_once * bytes);
  }

  const Plan& plan_;
  QuadLoader loader_;
  const int64_t shift_rows_;
  uint8_t* front_;  // the quads of the next tile
  uint8_t* back_;   // of this one
};

}  // namespace detail
}  // namespace hptp
