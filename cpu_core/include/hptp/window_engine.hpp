// Moves the tiles of a plan by way of quads where columns begin anywhere in a line, as those of a
// matrix of 8191 rows do, on one thread.
//
// Of each column a window is written that begins and ends with a line, so it holds some of the rows
// above the tile: tiles go down along the destination, and the last line of each column is kept for
// the tile below. A thread's first and last tile begin and end with their own rows.
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

class WindowEngine {
 public:
  WindowEngine(const Plan& plan, uint8_t* buffers)
      : plan_(plan),
        loader_(plan),
        front_(buffers),
        back_(front_ + tile_bytes(plan)),
        lines_(back_ + tile_bytes(plan)) {}

  static int64_t buffer_bytes(const Plan& plan) {
    return 2 * tile_bytes(plan) + plan.columns.elems * kLineBytes;
  }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = walk.tile();
    tile.first = true;
    walk.advance();
    Tile next = walk.tile();
    loader_.start(tile, next.src, front_);
    loader_.load_rest();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      std::swap(front_, back_);
      walk.advance();
      const Tile after = walk.tile();
      if (i < num_tiles) {
        loader_.start(next, after.src, front_);
      } else {
        tile.last = true;
      }
      write(tile);
      loader_.load_rest();
      tile = next;
      next = after;
    }
  }

 private:
  static int64_t tile_bytes(const Plan& plan) {
    return ceil_div(plan.rows.elems, kQuadRows) * plan.in_pitch_bytes;
  }

  void write(const Tile& tile) {
    QuadWindows windows{
        back_, plan_.in_pitch_bytes,         lines_,     tile.dst, plan_.dst_offsets.data(),
        0,     tile.rows * plan_.elem_bytes, tile.first, tile.last};
    const bool exchanges = !tile.first && !tile.last;
    for (int64_t left = tile.columns; left > 0; left -= windows.num_columns) {
      windows.num_columns = left;
      if (exchanges && left >= plan_.quads->columns_at_once && loader_.loads()) {
        exchange(&windows);
      } else {
        plan_.quads->write_windows(windows);
      }
      windows.quads += windows.num_columns * kQuadRows * plan_.elem_bytes;
      windows.lines += windows.num_columns * kLineBytes;
      windows.dst_offsets += windows.num_columns;
    }
  }

  // Writes as many columns as the rows that are coming have steps for, and loads those.
  void exchange(QuadWindows* windows) {
    const int64_t at_once = plan_.quads->columns_at_once;
    const int64_t bytes = windows->column_bytes / kQuadRows;  // of each row, for a column
    windows->num_columns = std::min(windows->num_columns, loader_.bytes_left() / bytes);
    windows->num_columns -= windows->num_columns % at_once;
    plan_.quads->exchange_windows(*windows, loader_.rows());
    loader_.advance(windows->num_columns * bytes, at_once * bytes);
  }

  const Plan& plan_;
  QuadLoader loader_;
  uint8_t* front_;  // the quads of the next tile
  uint8_t* back_;   // of this one
  uint8_t* lines_;  // the last line of each column of the tile above
};

}  // namespace detail
}  // namespace hptp
