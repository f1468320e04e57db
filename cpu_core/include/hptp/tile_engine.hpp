// Moves the tiles of a plan through buffers, on one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "kernels.hpp"
#include "plan.hpp"

namespace hptp {
namespace detail {

// Where a tile is and how much of it there is.
struct Tile {
  const uint8_t* src;
  uint8_t* dst;
  int64_t rows;
  int64_t columns;
  bool first;  // of the tiles that continue one another's destination runs
  bool last;
};

// Walks the loops of a plan from any tile on; the position is advanced without divisions.
class TileWalk {
 public:
  TileWalk(const Plan& plan, int64_t first, const uint8_t* src, uint8_t* dst)
      : plan_(plan), src_(src), dst_(dst) {
    for (int i = plan.num_loops - 1; i >= 0; --i) {
      const TileLoop& loop = plan.loops[i];
      index_[i] = first % loop.count;
      first /= loop.count;
      src_ += index_[i] * loop.src_step_bytes;
      dst_ += index_[i] * loop.dst_step_bytes;
    }
  }

  const uint8_t* src() const { return src_; }
  uint8_t* dst() const { return dst_; }
  int64_t innermost_index() const { return index_[plan_.num_loops - 1]; }

  Tile tile() const {
    Tile tile{src_, dst_, plan_.rows.elems, plan_.columns.elems, true, true};
    for (int i = 0; i < plan_.num_loops; ++i) {
      const TileLoop& loop = plan_.loops[i];
      if (loop.axis == plan_.rows.part_axis) {
        tile.rows = length(plan_.rows, loop, index_[i]);
        tile.first = index_[i] == 0;
        tile.last = index_[i] == loop.count - 1;
      } else if (loop.axis == plan_.columns.part_axis) {
        tile.columns = length(plan_.columns, loop, index_[i]);
      }
    }
    return tile;
  }

  void advance() {
    for (int i = plan_.num_loops - 1; i >= 0; --i) {
      const TileLoop& loop = plan_.loops[i];
      src_ += loop.src_step_bytes;
      dst_ += loop.dst_step_bytes;
      if (++index_[i] < loop.count) return;
      src_ -= loop.count * loop.src_step_bytes;
      dst_ -= loop.count * loop.dst_step_bytes;
      index_[i] = 0;
    }
  }

 private:
  // The last part of an axis may be shorter than the others.
  static int64_t length(const Run& run, const TileLoop& loop, int64_t index) {
    return std::min(run.part, loop.size - index * run.part) * run.part_elems;
  }

  const Plan& plan_;
  const uint8_t* src_;
  uint8_t* dst_;
  int64_t index_[kMaxDims];
};

inline void copy_cached(uint8_t* dst, const uint8_t* src, int64_t bytes) {
  std::memcpy(dst, src, static_cast<size_t>(bytes));
}

// The buffers of this thread, kept from call to call; null when there is no memory.
inline uint8_t* thread_buffers(int64_t bytes) {
  constexpr int64_t kPageBytes = 4096;
  thread_local std::unique_ptr<uint8_t[]> memory;
  thread_local int64_t size = 0;
  if (size < bytes) {
    memory.reset(new (std::nothrow) uint8_t[static_cast<size_t>(bytes + kPageBytes)]);
    size = memory == nullptr ? 0 : bytes;
  }
  if (memory == nullptr) return nullptr;
  return memory.get() + (-reinterpret_cast<uintptr_t>(memory.get()) & (kPageBytes - 1));
}

// Moves tiles without buffers, element by element: for when there is no memory for them.
inline void move_tiles(const Plan& plan, TileWalk walk, int64_t num_tiles) {
  const int64_t column_bytes = plan.rows.elems * plan.elem_bytes;
  for (int64_t i = 0; i < num_tiles; ++i, walk.advance()) {
    const Tile tile = walk.tile();
    for (int64_t column = 0; column < tile.columns; ++column) {
      const int64_t run = column / plan.columns_per_run;
      uint8_t* dst = tile.dst + plan.dst_offsets[static_cast<size_t>(run)] +
                     (column - run * plan.columns_per_run) * column_bytes;
      for (int64_t row = 0; row < tile.rows; ++row) {
        std::memcpy(dst + row * plan.elem_bytes,
                    tile.src + plan.src_offsets[static_cast<size_t>(plan.lead_rows + row)] +
                        column * plan.elem_bytes,
                    static_cast<size_t>(plan.elem_bytes));
      }
    }
  }
}

// Moves tiles of a plan that puts columns where they go.
inline void put_tiles(const Plan& plan, TileWalk walk, int64_t num_tiles) {
  const int64_t out_pitch_bytes = dst_pitch_bytes(plan);
  for (int64_t i = 0; i < num_tiles; ++i, walk.advance()) {
    const Tile tile = walk.tile();
    const Block block{tile.src,  plan.in_pitch_bytes, tile.dst,       out_pitch_bytes,
                      tile.rows, tile.columns,        plan.elem_bytes};
    const bool small = tile.rows < plan.block->min_rows || tile.columns < plan.block->min_columns;
    (small ? plan.small_block->run : plan.block->put)(block);
  }
}

constexpr int64_t kRowsAhead = 4;          // prefetched: the next four of those read side by side
constexpr int64_t kBytesAhead = 16 << 10;  // prefetched, where rows are adjacent

// Loads the rows of the next tile while the columns of this one leave, so that reads and writes of
// memory go on side by side, as in a copy.
class TileEngine {
 public:
  TileEngine(const Plan& plan, const uint8_t* dst, uint8_t* buffers)
      : plan_(plan),
        lead_rows_(plan.whole_lines && misaligned_bytes(dst) == 0 ? 0 : plan.lead_rows),
        copy_(plan.stream ? plan.set->stream : copy_cached),
        front_(buffers),
        back_(front_ + in_bytes(plan)),
        columns_(back_ + in_bytes(plan)) {}

  static int64_t buffer_bytes(const Plan& plan) {
    const int64_t columns = std::min(plan.group_columns, plan.columns.elems) + kSlackRows;
    return 2 * in_bytes(plan) + columns * plan.out_pitch_bytes + kSlackBytes;
  }

  void run(TileWalk walk, int64_t num_tiles) {
    Tile tile = walk.tile();
    load(tile, tile, 0, 1, 1);
    walk.advance();
    for (int64_t i = 1; i <= num_tiles; ++i) {
      const bool more = i < num_tiles;
      const Tile next = more ? walk.tile() : tile;
      walk.advance();
      const Tile after = i + 1 < num_tiles ? walk.tile() : next;
      const int64_t groups = ceil_div(tile.columns, plan_.group_columns);
      const uint8_t* rows = front_;
      std::swap(front_, back_);
      for (int64_t group = 0; group < groups; ++group) {
        if (more) load(next, after, group, group + 1, groups);
        transpose(tile, rows, group * plan_.group_columns);
      }
      tile = next;
    }
  }

 private:
  static int64_t in_bytes(const Plan& plan) {
    if (plan.direct) return 0;
    const int64_t rows = std::max(plan.lead_rows + plan.rows.elems, kSlackRows);
    return round_up(rows * plan.in_pitch_bytes + kSlackBytes, kLineBytes);
  }

  int64_t lead_rows(const Tile& tile) const { return tile.first ? 0 : lead_rows_; }

  // Loads the part [first, last) / parts of a tile's rows into the front buffer.
  void load(const Tile& tile, const Tile& next, int64_t first, int64_t last, int64_t parts) const {
    if (plan_.direct) return;
    const int64_t lead = lead_rows(tile);
    Load load{};
    load.src = tile.src;
    load.row_offsets = plan_.src_offsets.data() + plan_.lead_rows - lead;
    load.rows = lead + tile.rows;
    load.row_bytes = tile.columns * plan_.elem_bytes;
    load.pitch_bytes = plan_.in_pitch_bytes;
    load.next_src = next.src;
    load.out = front_;
    if (plan_.rows_packed) {
      const int64_t bytes = load.rows * load.row_bytes;
      const int64_t begin = part_of(bytes, first, parts, kLineBytes);
      load.src += begin;
      load.out += begin;
      load.row_bytes = part_of(bytes, last, parts, kLineBytes) - begin;
      load.rows = load.last_row = 1;
    } else {
      load.first_row = part_of(load.rows, first, parts, kRowsAhead);
      load.last_row = part_of(load.rows, last, parts, kRowsAhead);
      load.rows_adjacent = plan_.rows_adjacent;
      load.rows_ahead =
          plan_.rows_adjacent ? std::max(kBytesAhead / load.row_bytes, kRowsAhead) : kRowsAhead;
    }
    plan_.set->load(load);
  }

  // Where the part [index, index + 1) / parts of `size` begins, in whole steps.
  static int64_t part_of(int64_t size, int64_t index, int64_t parts, int64_t step) {
    return index == parts ? size : size / step * index / parts * step;
  }

  // Transposes a group of columns and writes it out.
  void transpose(const Tile& tile, const uint8_t* rows, int64_t column) const {
    const int64_t lead = lead_rows(tile);
    Block block{};
    block.in =
        (plan_.direct ? tile.src - lead * plan_.in_pitch_bytes : rows) + column * plan_.elem_bytes;
    block.in_pitch_bytes = plan_.in_pitch_bytes;
    block.out = columns_;
    block.out_pitch_bytes = plan_.out_pitch_bytes;
    block.rows = lead + tile.rows;
    block.columns = std::min(plan_.group_columns, tile.columns - column);
    block.elem_bytes = plan_.elem_bytes;
    const bool small =
        block.rows < plan_.block->min_rows || block.columns < plan_.block->min_columns;
    (small ? plan_.small_block : plan_.block)->run(block);
    if (plan_.columns_per_run == 1) {
      write_columns(tile, column, column + block.columns);
    } else {
      write_packed(tile, column, column + block.columns);
    }
  }

  // A run begins and ends with a whole line, except where the destination's own run does.
  void write_columns(const Tile& tile, int64_t first, int64_t last) const {
    const int64_t bytes = tile.rows * plan_.elem_bytes;
    const int64_t lead_bytes = lead_rows(tile) * plan_.elem_bytes;
    const uint8_t* from = columns_ + lead_bytes;
    for (int64_t column = first; column < last; ++column, from += plan_.out_pitch_bytes) {
      uint8_t* to = tile.dst + plan_.dst_offsets[static_cast<size_t>(column)];
      const int64_t begin = tile.first || lead_bytes == 0 ? 0 : misaligned_bytes(to);
      const int64_t end = tile.last || lead_rows_ == 0 ? 0 : misaligned_bytes(to + bytes);
      copy_(to - begin, from - begin, begin + bytes - end);
    }
  }

  static int64_t misaligned_bytes(const uint8_t* p) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) & (kLineBytes - 1));
  }

  void write_packed(const Tile& tile, int64_t first, int64_t last) const {
    const uint8_t* from = columns_;
    while (first < last) {
      const int64_t run = first / plan_.columns_per_run;
      const int64_t within = first - run * plan_.columns_per_run;
      const int64_t columns = std::min(plan_.columns_per_run - within, last - first);
      copy_(tile.dst + plan_.dst_offsets[static_cast<size_t>(run)] + within * plan_.out_pitch_bytes,
            from, columns * plan_.out_pitch_bytes);
      from += columns * plan_.out_pitch_bytes;
      first += columns;
    }
  }

  const Plan& plan_;
  const int64_t lead_rows_;
  const CopyKernel copy_;
  uint8_t* front_;
  uint8_t* back_;
  uint8_t* columns_;
};

}  // namespace detail
}  // namespace hptp
