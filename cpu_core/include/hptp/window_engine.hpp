// Moves the tiles of a plan by way of quads where columns begin anywhere in a line, as those of a
// matrix of 8191 rows do, on one thread.
//
// Of each column a window is written that begins and ends with a line, so it holds some of the rows
// above the tile: tiles go down along the destination, and the last line of rows is kept for the
// tile below. A tile is up to 20 KB of each row, since going down costs less the longer the rows
// are that lie in between (one part: 43 % of a copy's speed, 8: 52 %); it is loaded and written in
// parts of 2 KB, a step of each in turn.
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
        line_rows_(line_rows(plan)),
        body_rows_(plan.rows.elems - line_rows_),
        num_ends_(max_parts(plan) + 2),
        front_(buffers),
        back_(front_ + bytes_of(plan, body_rows_)),
        ends_(back_ + bytes_of(plan, body_rows_)) {}

  static int64_t buffer_bytes(const Plan& plan) {
    return 2 * bytes_of(plan, plan.rows.elems - line_rows(plan)) +
           (max_parts(plan) + 2) * bytes_of(plan, line_rows(plan));
  }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = walk.tile();
    walk.advance();
    Tile next = walk.tile();
    if (!tile.first) load_lines_above(tile);
    Part part{tile, 0, max_parts(plan_)};
    start_loading(part, next);
    loader_.load_rest();
    for (int64_t tiles_left = num_tiles; tiles_left > 0;) {
      std::swap(front_, back_);
      Part following{tile, part.first_column + plan_.part_columns, part.number + 1};
      if (following.first_column >= tile.columns) {
        tile = next;
        walk.advance();
        next = walk.tile();
        following.tile = tile;
        following.first_column = 0;
        --tiles_left;
      }
      if (tiles_left > 0) start_loading(following, next);
      write(part);
      loader_.load_rest();
      part = following;
    }
  }

 private:
  // Some columns of a tile; the parts of a thread are numbered.
  struct Part {
    Tile tile;
    int64_t first_column;
    int64_t number;
  };

  static int64_t line_rows(const Plan& plan) { return kLineBytes / plan.elem_bytes; }

  static int64_t max_parts(const Plan& plan) {
    return ceil_div(plan.columns.elems, plan.part_columns);
  }

  static int64_t bytes_of(const Plan& plan, int64_t rows) {
    return ceil_div(rows, kQuadRows) * plan.in_pitch_bytes;
  }

  int64_t num_parts(const Tile& tile) const { return ceil_div(tile.columns, plan_.part_columns); }

  int64_t num_columns(const Part& part) const {
    return std::min(plan_.part_columns, part.tile.columns - part.first_column);
  }

  // The quads of the last line of rows of a part.
  uint8_t* end_of(int64_t number) const {
    return ends_ + number % num_ends_ * bytes_of(plan_, line_rows_);
  }

  Tile tile_of(const Part& part) const {
    Tile tile = part.tile;
    tile.src += part.first_column * plan_.elem_bytes;
    tile.columns = num_columns(part);
    return tile;
  }

  void start_loading(const Part& part, const Tile& next) {
    const Tile tile = tile_of(part);
    const bool last = part.first_column + tile.columns == part.tile.columns;
    loader_.start(tile, last ? next.src : tile.src + tile.columns * plan_.elem_bytes,
                  {front_, end_of(part.number), body_rows_});
  }

  // For the first tile of a thread, what the tile above it would have left.
  void load_lines_above(const Tile& below) {
    Part part{below, 0, max_parts(plan_) - num_parts(below)};
    part.tile.rows = line_rows_;
    part.tile.src -= line_rows_ * plan_.row_stride_bytes;
    for (; part.first_column < below.columns; part.first_column += plan_.part_columns) {
      loader_.start(tile_of(part), below.src, {front_, end_of(part.number++), 0});
      loader_.load_rest();
    }
  }

  void write(const Part& part) {
    const Tile& tile = part.tile;
    const uint8_t* pieces[kMaxPieces];
    find_pieces(part, pieces);
    QuadWindows windows{pieces,     0,
                        tile.dst,   plan_.dst_offsets.data() + part.first_column,
                        0,          tile.rows * plan_.elem_bytes,
                        tile.first, tile.last};
    const bool exchanges = !tile.first && !tile.last;
    for (int64_t left = num_columns(part); left > 0; left -= windows.num_columns) {
      windows.num_columns = left;
      if (exchanges && left >= plan_.quads->columns_at_once && loader_.loads()) {
        exchange(&windows);
      } else {
        plan_.quads->write_windows(windows);
      }
      windows.first_column += windows.num_columns;
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

  // Every line of rows is four or more pieces of a column, in one or more quads. Kernels read a
  // line of pieces more, of which nothing is written.
  void find_pieces(const Part& part, const uint8_t** pieces) const {
    const int64_t quad_bytes = kQuadRows * plan_.elem_bytes;
    const int64_t step_bytes = piece_bytes(plan_.elem_bytes);
    const uint8_t* line = end_of(part.number - num_parts(part.tile));
    for (int64_t row = -line_rows_; row < part.tile.rows; row += line_rows_) {
      if (row == 0) line = back_;
      if (row == body_rows_) line = end_of(part.number);
      for (int64_t i = 0; i < kLineBytes; i += step_bytes) {
        *pieces++ = line + i / quad_bytes * plan_.in_pitch_bytes + i % quad_bytes;
      }
      line += bytes_of(plan_, line_rows_);
    }
    std::fill_n(pieces, kLineBytes / step_bytes, pieces[-1]);
  }

  // Of a column of the tile, the line above it, and one more.
  static constexpr int64_t kMaxPieces = (kMaxQuadColumnBytes + 2 * kLineBytes) / piece_bytes(1);

  const Plan& plan_;
  QuadLoader loader_;
  const int64_t line_rows_;
  const int64_t body_rows_;  // of a whole tile, but its last line of rows
  const int64_t num_ends_;   // those above the parts of a tile, this part's and the next one's
  uint8_t* front_;           // the quads of the next part, but the last line of rows
  uint8_t* back_;            // of this one
  uint8_t* ends_;            // the last lines of rows
};

}  // namespace detail
}  // namespace hptp
