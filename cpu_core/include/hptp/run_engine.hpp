// Moves elements of tens or hundreds of bytes, such as one head's share of a token, by way of runs
// of them, on one thread.
//
// The rows of a tile are read in the order of memory, and their elements put down column by column
// in a buffer; then whole runs leave past the cache, while the rows of the next tile are
// prefetched. An element that leaves by itself shares two lines with others, which are then read
// and written twice: rows of 240 bytes had 60 % of a copy's speed, and less where each was moved by
// the tile engine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.hpp"
#include "plan.hpp"
#include "tile_engine.hpp"

namespace hptp {
namespace detail {

// Prefetches the rows of a tile, as many bytes at a time as it is asked to.
class RowsAhead {
 public:
  RowsAhead(const Plan& plan, const Tile& tile)
      : src_(tile.src),
        offset_(plan.src_offsets.data()),
        end_(offset_ + tile.rows),
        row_bytes_(tile.columns * plan.elem_bytes) {}

  void prefetch(int64_t bytes) {
    for (; bytes > 0 && offset_ < end_; bytes -= kLineBytes) {
      scalar::prefetch<true>(src_ + *offset_ + at_);
      at_ += kLineBytes;
      if (at_ < row_bytes_) continue;
      ++offset_;
      at_ = 0;
    }
  }

 private:
  const uint8_t* src_;
  const int64_t* offset_;  // of the row
  const int64_t* end_;
  int64_t row_bytes_;
  int64_t at_ = 0;
};

class RunEngine {
 public:
  RunEngine(const Plan& plan, uint8_t* buffer) : plan_(plan), columns_(buffer) {}

  static int64_t buffer_bytes(const Plan& plan) {
    return plan.columns.elems * plan.out_pitch_bytes;
  }

  void run(TileWalk walk, int64_t num_tiles) const {
    Tile tile = walk.tile();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      plan_.set->gather({tile.src, plan_.src_offsets.data(), tile.rows, tile.columns,
                         plan_.elem_bytes, columns_, plan_.out_pitch_bytes});
      walk.advance();
      const Tile next = walk.tile();
      write(tile, next);
      tile = next;
    }
  }

 private:
  static constexpr int64_t kPieceBytes = 256;  // written, and then as many prefetched

  // A run is one column, or several that follow one another.
  void write(const Tile& tile, const Tile& next) const {
    RowsAhead ahead(plan_, next);
    const int64_t column_bytes = tile.rows * plan_.elem_bytes;
    const int64_t* dst_offset = plan_.dst_offsets.data();
    for (int64_t column = 0; column < tile.columns; column += plan_.columns_per_run) {
      const int64_t columns = std::min(plan_.columns_per_run, tile.columns - column);
      write_run(tile.dst + *dst_offset++, columns_ + column * plan_.out_pitch_bytes,
                columns * column_bytes, &ahead);
    }
  }

  void write_run(uint8_t* dst, const uint8_t* from, int64_t bytes, RowsAhead* ahead) const {
    while (bytes > 0) {
      const int64_t behind_line = reinterpret_cast<intptr_t>(dst) & (kLineBytes - 1);
      const int64_t piece_bytes = std::min(bytes, kPieceBytes - behind_line);
      plan_.set->stream(dst, from, piece_bytes);
      ahead->prefetch(piece_bytes);
      dst += piece_bytes;
      from += piece_bytes;
      bytes -= piece_bytes;
    }
  }

  const Plan& plan_;
  uint8_t* const columns_;  // of this tile
};

}  // namespace detail
}  // namespace hptp
