// Loads the rows of tiles, four at a time, as quads.
//
// Four rows come from memory side by side, in runs of 2 KB: the hardware's prefetcher follows four
// streams within their pages, and loses eight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.hpp"
#include "plan.hpp"
#include "tile_engine.hpp"

namespace hptp {
namespace detail {

// How far behind the beginning of a line.
inline int64_t behind_line(const uint8_t* p) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & (kLineBytes - 1));
}

constexpr int64_t kStreamAheadBytes = 8 << 10;

// Loads the rows of one tile after another, as many bytes at a time as it is asked to.
class QuadLoader {
 public:
  explicit QuadLoader(const Plan& plan) : plan_(plan) {}

  // From here on loads() is true until all rows of the tile are in the buffer. The tile that comes
  // next is prefetched behind the last of them.
  void start(const Tile& tile, const uint8_t* next_src, uint8_t* quads) {
    src_ = tile.src;
    next_src_ = next_src;
    quads_ = quads;
    num_rows_ = tile.rows;
    row_bytes_ = tile.columns * plan_.elem_bytes;
    row_ = 0;
    start_rows();
  }

  bool loads() const { return row_ < num_rows_; }

  const QuadRows& rows() const { return rows_; }

  int64_t bytes_left() const { return row_bytes_ - rows_.at; }  // of each of these rows

  // So much of each of them has been loaded; a rest shorter than `step` is loaded here.
  void advance(int64_t bytes, int64_t step_bytes) {
    rows_.at += bytes;
    if (bytes_left() < step_bytes) load_rest_of_rows();
  }

  void load_rest() {
    while (loads()) load_rest_of_rows();
  }

 private:
  // Prefetched are the next four rows. Rows that follow one another are one stream, prefetched in
  // its order and 8 KB ahead or more: with the next four of 512 bytes, NHWC to NCHW has 73 % of a
  // copy's speed, so 104. Where there are fewer than four, the last one stands in. What is behind
  // the end of a row comes soon, unless tiles go on along the destination: then prefetching it, or
  // not to the very end, costs up to a tenth.
  void start_rows() {
    rows_.at = 0;
    rows_.out = quads_ + row_ / kQuadRows * plan_.in_pitch_bytes;
    const int64_t* offsets = plan_.src_offsets.data();
    const bool adjacent = offsets[1] - offsets[0] == row_bytes_;
    const bool stops = plan_.along_destination && !adjacent;
    const int64_t stream_ahead = std::max(kQuadRows * row_bytes_, kStreamAheadBytes);
    rows_.ahead_stride = adjacent ? kQuadRows : 1;
    rows_.last_soon = stops ? row_bytes_ - 1 : row_bytes_ + kSoonBytes;
    for (int64_t k = 0; k < kQuadRows; ++k) {
      const int64_t row = std::min(row_ + k, num_rows_ - 1);
      const int64_t next = row + kQuadRows;
      rows_.from[k] = src_ + offsets[row];
      rows_.ahead[k] = adjacent           ? rows_.from[0] + stream_ahead + k * kLineBytes
                       : next < num_rows_ ? src_ + offsets[next]
                                          : next_src_ + offsets[k];
      if (stops) scalar::prefetch<true>(rows_.ahead[k] + row_bytes_ - 1);
    }
  }

  void load_rest_of_rows() {
    plan_.quads->load(rows_, row_bytes_);
    row_ += kQuadRows;
    if (loads()) start_rows();
  }

  const Plan& plan_;
  const uint8_t* src_ = nullptr;
  const uint8_t* next_src_ = nullptr;
  uint8_t* quads_ = nullptr;
  int64_t num_rows_ = 0;
  int64_t row_bytes_ = 0;
  int64_t row_ = 0;  // of those coming now
  QuadRows rows_{};
};

}  // namespace detail
}  // namespace hptp
