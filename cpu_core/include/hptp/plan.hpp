// What to do for a problem, decided without touching data: immutable and printable.
//
// Whatever the rank, a tile (see tile_shape.hpp) is a 2-D transpose whose source rows and
// destination columns are found through tables of offsets; all axes no tile holds, and the parts of
// those it holds partly, are looped over outside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache_info.hpp"
#include "cpus.hpp"
#include "kernels.hpp"
#include "problem.hpp"
#include "tile_shape.hpp"

namespace hptp {

enum class Method {
  nothing,
  copy,      // one contiguous block
  rows,      // long contiguous rows, moved as they are
  tiles,     // transposed through buffers
  elements,  // one by one: tiny problems, tiny blocks, strides that leave gaps on both sides
};

inline const char* to_string(Method method) {
  constexpr const char* kNames[] = {"nothing", "copy", "rows", "tiles", "elements"};
  return kNames[static_cast<int>(method)];
}

// One loop around the tiles: an axis, or the parts of one.
struct TileLoop {
  int axis;
  int64_t size;   // of the axis
  int64_t count;  // of steps
  int64_t src_step_bytes;
  int64_t dst_step_bytes;
};

// How tiles go from the source to the destination (see the engines' files).
enum class Way {
  buffers,  // tile_engine.hpp, or straight
  quads,
  windows,
  runs,
};

struct Plan {
  Problem problem;
  int num_threads;
  const char* kernel;
  const char* isa;

  Method method;
  bool stream;           // stores go past the cache
  int64_t elem_bytes;    // what moves as one: the problem's element, or a whole contiguous row
  const KernelSet* set;  // of the ISA
  int num_loops;
  TileLoop loops[kMaxDims];  // outermost first
  int64_t num_tiles;

  // Where the elements of a tile are. Method elements has one entry in each for every element;
  // tiles have, for the source, lead_rows and the rows, and for the destination, one for every
  // columns_per_run columns.
  std::vector<int64_t> src_offsets;
  std::vector<int64_t> dst_offsets;

  int64_t
      block_ahead_bytes;  // method rows; > 0: tiles read block after block, prefetched so far ahead

  // Method tiles.
  const QuadKernels* quads;  // by way of quads; null: through a second buffer
  int64_t shift_rows;        // their tiles may be shifted by fewer rows than that
  int64_t row_stride_bytes;  // of the source, where they may
  Way way;
  bool along_destination;                 // tiles go on there, and not along the source
  std::shared_ptr<const Plan> unaligned;  // what to do with a destination that begins elsewhere
  const Kernel* block;                    // not by way of quads
  const Kernel* small_block;              // for blocks of fewer rows or columns than that one takes
  Run rows;
  Run columns;
  int64_t lead_rows;         // rows before a tile's own, which it may need to fill its first lines
  bool whole_lines;          // not so when the destination begins with a line: then all tiles do
  int64_t columns_per_run;   // > 1: so many columns follow one another in the destination
  int64_t group_columns;     // transposed and written at a time
  bool rows_adjacent;        // rows follow one another in the source
  bool rows_packed;          // and are loaded as one
  bool direct;               // rows are used where they are, and not loaded into a buffer
  int64_t direct_dst_align;  // > 0: and columns put where they go in destinations so aligned
  int64_t in_pitch_bytes;    // of the rows, or from four rows' quads to the next four's
  int64_t out_pitch_bytes;   // of the columns, in their buffer
};

namespace detail {

#ifdef HPTP_TINY_BLOCKS  // for tests: small tensors take every path
constexpr int64_t kRowsBytes = 64;
constexpr int64_t kColumnsBytes = 64;
constexpr int64_t kMaxRunBytes = 256;
constexpr int64_t kQuadColumnsBytes = 128;
constexpr int64_t kByteQuadColumnsBytes = 64;
constexpr int64_t kQuadRunBytes = 192;
constexpr int64_t kSmallQuadRunBytes = 64;
constexpr int64_t kMinWindowTiles = 2;
constexpr int64_t kFarRowsBytes = 1 << 10;
constexpr int64_t kTileBytes = 16 << 10;
constexpr int64_t kGroupBytes = 512;
constexpr int64_t kMinRowBytes = 24;
constexpr int64_t kRowsRunBytes = 128;
constexpr int64_t kMaxBlockAheadBytes = 1 << 10;
constexpr int64_t kRunBytes = 256;
constexpr int64_t kMinRunBytes = 64;
constexpr int64_t kMaxRunElemBytes = 100;
constexpr int64_t kFewElems = 4;
constexpr int64_t kMinTileBytes = 32;
inline int64_t min_stream_bytes() { return 256; }
#else
constexpr int64_t kRowsBytes = 512;      // a run of the destination
constexpr int64_t kColumnsBytes = 2048;  // a run of the source: long, for the hardware's prefetcher
constexpr int64_t kMaxRunBytes = 4 << 10;        // of a side that has the other's share of a tile
constexpr int64_t kQuadColumnsBytes = 2048;      // by way of quads; runs of the source
constexpr int64_t kByteQuadColumnsBytes = 1536;  // of bytes: two tiles of them stay in 512 KB
constexpr int64_t kQuadRunBytes = 256;           // and of the destination, at least
constexpr int64_t kSmallQuadRunBytes = 128;      // or, since those have more rows in a line
constexpr int64_t kMinWindowTiles = 4;           // along an axis
constexpr int64_t kFarRowsBytes = 256 << 10;     // further apart, tiles go on along the destination
constexpr int64_t kTileBytes = 400 << 10;   // two tiles and a group are the scratch of a thread
constexpr int64_t kGroupBytes = 12 << 10;   // of columns: they stay in the first cache
constexpr int64_t kMinRowBytes = 192;       // shorter rows are moved as elements of tiles
constexpr int64_t kRowsRunBytes = 1 << 10;  // of rows that are moved one after the other
constexpr int64_t kMaxBlockAheadBytes = 128 << 10;  // or the second cache loses them again
constexpr int64_t kRunBytes = 4 << 10;     // of long elements, in the destination and the source
constexpr int64_t kMinRunBytes = 512;      // shorter ones share too many lines
constexpr int64_t kMaxRunElemBytes = 320;  // longer ones do not
constexpr int64_t kFewElems = 256;         // moved in the time it takes to set up a tile
constexpr int64_t kMinTileBytes = 768;     // smaller tiles cost more than their elements

// Lines written past the cache need not be read first, which pays long before a tensor outgrows
// the last level: from 1-2 MB on, a transpose takes half the time, with 32 MB of last level as with
// the 480 MB that guests of a large server believe to be theirs.
inline int64_t min_stream_bytes() { return std::min<int64_t>(last_level_bytes() / 16, 2 << 20); }
#endif

// Makes contiguous last axes part of the element, however long.
inline Problem fold_rows(Problem problem) {
  while (problem.ndim > 0) {
    const Axis& last = problem.axes[problem.ndim - 1];
    if (src_stride(last) != problem.elem_bytes || dst_stride(last) != problem.elem_bytes) break;
    problem.elem_bytes *= last.size;
    problem.ndim -= 1;
  }
  return problem;
}

// The axis whose elements follow one another, or -1.
inline int unit_axis(const Problem& problem, Stride stride) {
  for (int i = problem.ndim - 1; i >= 0; --i) {
    if (stride(problem.axes[i]) == problem.elem_bytes) return i;
  }
  return -1;
}

// Loops over every axis that tiles do not hold, and the parts of those they hold partly. The
// innermost goes along one side: along the source, a tile goes on where the last one stopped
// reading; along the destination, where it stopped writing.
inline void set_loops(Plan* plan, const Problem& problem, const Side& rows, const Side& columns) {
  plan->num_tiles = 1;
  for (int i = 0; i < problem.ndim; ++i) {
    int64_t step = 1;
    if (i == plan->rows.part_axis) {
      step = plan->rows.part;
    } else if (i == plan->columns.part_axis) {
      step = plan->columns.part;
    } else if (rows.has(i) || columns.has(i)) {
      continue;
    }
    const Axis& axis = problem.axes[i];
    const int64_t count = ceil_div(axis.size, step);
    plan->loops[plan->num_loops++] = {i, axis.size, count, src_stride(axis) * step,
                                      dst_stride(axis) * step};
    plan->num_tiles *= count;
  }
  std::stable_sort(
      plan->loops, plan->loops + plan->num_loops, [=](const TileLoop& a, const TileLoop& b) {
        return plan->along_destination ? magnitude(a.dst_step_bytes) > magnitude(b.dst_step_bytes)
                                       : magnitude(a.src_step_bytes) > magnitude(b.src_step_bytes);
      });
}

// An odd number of lines: a power of two as pitch would put all rows (or columns) in a few sets of
// the cache.
inline int64_t padded(int64_t bytes) { return (ceil_div(bytes, kLineBytes) | 1) * kLineBytes; }

// Where tiles do not begin with a line of the destination, the line between two of them belongs to
// the later one, which reads again what it needs of the rows before.
inline void add_lead_rows(Plan* plan, const Problem& problem) {
  const int64_t lead = ceil_div(kLineBytes - 1, problem.elem_bytes);
  if (plan->rows.part_axis < 0 || plan->rows.elems < lead || !plan->stream) return;
  plan->lead_rows = lead;
  const int64_t part_bytes = plan->rows.part * src_stride(problem.axes[plan->rows.part_axis]);
  std::vector<int64_t> offsets(plan->src_offsets.end() - lead, plan->src_offsets.end());
  for (int64_t& offset : offsets) offset -= part_bytes;
  plan->src_offsets.insert(plan->src_offsets.begin(), offsets.begin(), offsets.end());
}

// Where a tile's rows come from. Short ones that follow one another are loaded as one.
inline void set_rows(Plan* plan, const Problem& problem, const Side& rows) {
  const int64_t row_bytes = plan->columns.elems * problem.elem_bytes;
  plan->src_offsets = offsets_of(problem, rows, plan->rows.elems, src_stride);
  add_lead_rows(plan, problem);
  plan->rows_adjacent = rows.num_axes == 1 && plan->columns.part_axis < 0 &&
                        src_stride(problem.axes[rows.axes[0]]) == row_bytes;
  plan->rows_packed =
      plan->rows_adjacent && (row_bytes < 2 * kLineBytes || row_bytes % kLineBytes != 0);
  plan->in_pitch_bytes = plan->rows_packed ? row_bytes : padded(row_bytes);
}

// Where a tile's columns go. Those that fill whole destination rows follow one another there; they
// are packed just so in the buffer and leave as one run.
inline void set_columns(Plan* plan, const Problem& problem, const Side& columns) {
  const int64_t column_bytes = plan->rows.elems * problem.elem_bytes;
  const Axis& first = problem.axes[columns.axes[0]];
  std::vector<int64_t>& offsets = plan->dst_offsets;
  offsets = offsets_of(problem, columns, plan->columns.elems, dst_stride);
  plan->columns_per_run = 1;
  plan->out_pitch_bytes = padded(column_bytes + plan->lead_rows * problem.elem_bytes);
  if (plan->rows.part_axis < 0 && dst_stride(first) == column_bytes) {
    plan->out_pitch_bytes = column_bytes;
    plan->columns_per_run = std::min(first.size, plan->columns.elems);
    const size_t step = static_cast<size_t>(plan->columns_per_run);
    for (size_t i = 1; i * step < offsets.size(); ++i) offsets[i] = offsets[i * step];
    offsets.resize((offsets.size() - 1) / step + 1);
  }
  const int64_t line = std::max<int64_t>(kLineBytes / problem.elem_bytes, 1);
  plan->group_columns = std::max<int64_t>(kGroupBytes / plan->out_pitch_bytes / line, 1) * line;
}

// Whether all columns of all tiles begin with a line of the destination if the first one does.
inline bool has_whole_lines(const Plan& plan) {
  const auto whole = [](int64_t bytes) { return bytes % kLineBytes == 0; };
  return std::all_of(plan.dst_offsets.begin(), plan.dst_offsets.end(), whole) &&
         std::all_of(plan.loops, plan.loops + plan.num_loops,
                     [&](const TileLoop& loop) { return whole(loop.dst_step_bytes); });
}

// log2 of an element size there are vector kernels for, or -1.
inline int size_class(int64_t elem_bytes) {
  for (int i = 0; i < 5; ++i) {
    if (elem_bytes == int64_t{1} << i) return i;
  }
  return -1;
}

inline bool are_evenly_spaced(const std::vector<int64_t>& offsets) {
  for (size_t i = 2; i < offsets.size(); ++i) {
    if (offsets[i] != static_cast<int64_t>(i) * offsets[1]) return false;
  }
  return true;
}

constexpr int64_t kFewLines = 8;  // a set of the first level holds as many, or more

// How many of so many lines, pitch_bytes apart, the most crowded set of the first level gets.
inline int64_t most_in_a_set(int64_t num_lines, int64_t pitch_bytes) {
  constexpr int64_t kSets = 64;
  int64_t lines[kSets] = {};
  int64_t most = 0;
  for (int64_t i = 0; i < num_lines; ++i) {
    most = std::max(most, ++lines[(i * pitch_bytes / kLineBytes) & (kSets - 1)]);
  }
  return most;
}

// Distance of a tile's columns in the destination.
inline int64_t dst_pitch_bytes(const Plan& plan) {
  return plan.columns_per_run > 1 ? plan.out_pitch_bytes : plan.dst_offsets[1];
}

// Whether rows and columns of a tile in the cache lie as those of a matrix do, at distances that
// let the lines of its squares stay in the first level. Put where they go, 500 x 500 elements of 4
// bytes take a third of the time they take through buffers; in crowded sets, up to three times it.
inline bool can_put_squares(const Plan& plan, const Kernel& kernel) {
  if (plan.stream || kernel.put == nullptr) return false;
  const int64_t min_rows = std::max<int64_t>(kernel.min_rows, 2);
  if (plan.rows.elems < min_rows || !are_evenly_spaced(plan.src_offsets)) return false;
  if (plan.columns.elems < std::max<int64_t>(kernel.min_columns, 2)) return false;
  if (plan.columns_per_run > 1 ? plan.dst_offsets.size() > 1
                               : !are_evenly_spaced(plan.dst_offsets)) {
    return false;
  }
  const int64_t most_rows = most_in_a_set(min_rows, plan.src_offsets[1]);
  return most_rows <= kFewLines && most_rows < min_rows &&
         most_in_a_set(4 * kernel.min_columns, dst_pitch_bytes(plan)) <= kFewLines;
}

// The kernel that puts squares where they go, of the widest set that takes so few rows: or null.
inline const Kernel* find_direct(const Plan& plan, int size) {
  const KernelSet* set = plan.set;
  while (set->isa != Isa::scalar && set->direct[size].min_rows > plan.rows.elems) {
    set = &narrower(*set);
  }
  return can_put_squares(plan, set->direct[size]) ? &set->direct[size] : nullptr;
}

inline void choose_kernel(Plan* plan, const Problem& problem, const Side& rows) {
  const KernelSet& set = *plan->set;
  const int64_t elem_bytes = problem.elem_bytes;
  const int size = size_class(elem_bytes);
  const auto are_channels = [&](int64_t n) {
    return size >= 0 && size < 3 && n >= 2 && n <= kMaxChannels;
  };
  plan->block = size >= 0         ? &set.block[size]
                : elem_bytes <= 4 ? &set.element[0]
                : elem_bytes <= 8 ? &set.element[1]
                                  : &set.element[elem_bytes <= 16 ? 2 : 3];
  plan->small_block = &set.element[3];
  if (are_channels(plan->columns.elems) && plan->rows_packed) {
    plan->direct = true;
    plan->block = &set.deinterleave[size][plan->columns.elems - 2];
    const bool direct = plan->whole_lines && plan->columns_per_run == 1;
    if (direct && are_evenly_spaced(plan->dst_offsets)) plan->direct_dst_align = elem_bytes;
  } else if (are_channels(plan->rows.elems) && rows.num_axes == 1 &&
             plan->out_pitch_bytes == plan->rows.elems * elem_bytes) {
    plan->direct = true;
    plan->block = &set.interleave[size][plan->rows.elems - 2];
    plan->in_pitch_bytes = src_stride(problem.axes[rows.axes[0]]);
    const int64_t align = plan->out_pitch_bytes & -plan->out_pitch_bytes;
    const bool aligned =
        std::all_of(plan->loops, plan->loops + plan->num_loops,
                    [=](const TileLoop& loop) { return loop.dst_step_bytes % align == 0; });
    if (aligned && plan->dst_offsets.size() == 1) plan->direct_dst_align = align;
  } else if (const Kernel* direct = size >= 0 ? find_direct(*plan, size) : nullptr) {
    plan->direct = true;
    plan->block = direct;
    plan->in_pitch_bytes = plan->src_offsets[1];
    plan->direct_dst_align = 1;
    return;
  }
  if (!plan->stream || plan->block->put == nullptr) plan->direct_dst_align = 0;
}

inline void plan_tiles(Plan* plan, const Problem& problem, int row_axis, int column_axis) {
  const auto elems = [&](int64_t bytes) {
    return std::max<int64_t>(bytes / problem.elem_bytes, 1);
  };
  Side rows{dst_stride, {}, 0, 1};
  Side columns{src_stride, {}, 0, 1};
  rows.take(problem, row_axis);
  columns.take(problem, column_axis);
  int64_t want_rows = elems(kRowsBytes);
  int64_t want_columns = elems(kColumnsBytes);
  const int64_t want = std::min(want_rows * want_columns, elems(kTileBytes * 3 / 4));
  extend_sides(problem, &rows, want_rows, &columns, want_columns);
  // A side that is stuck leaves its share of the tile to the other.
  if (rows.elems < want_rows) want_columns = std::min(elems(kMaxRunBytes), want / rows.elems);
  if (columns.elems < want_columns) want_rows = std::min(elems(kMaxRunBytes), want / columns.elems);
  extend_sides(problem, &rows, want_rows, &columns, want_columns);

  plan->rows = cut(problem, rows, want_rows);
  const int64_t most_columns = elems(kTileBytes) / (plan->rows.elems + elems(kLineBytes));
  plan->columns = cut(problem, columns, std::min(want_columns, most_columns), most_columns);
  set_rows(plan, problem, rows);
  set_columns(plan, problem, columns);
  set_loops(plan, problem, rows, columns);
  plan->whole_lines = has_whole_lines(*plan);
  choose_kernel(plan, problem, rows);
}

// Cuts rows so that a tile has whole steps of them and columns whole lines: as few as possible, but
// not fewer than make a long run.
inline bool cut_quad_rows(const Problem& problem, const Side& side, int64_t step_bytes,
                          int64_t run_bytes, Run* run) {
  const int axis = side.axes[side.num_axes - 1];
  const int64_t size = problem.axes[axis].size;
  const int64_t part_elems = side.elems / size;
  const int64_t part_bytes = part_elems * problem.elem_bytes;
  const int64_t most = kMaxQuadColumnBytes - kLineBytes;  // a shifted tile may be a line longer
  for (int64_t bytes = step_bytes; bytes <= most; bytes += step_bytes) {
    const int64_t part = bytes / part_bytes;
    if (part > size || part * part_bytes != bytes || bytes < run_bytes) continue;
    *run = {part * part_elems, part == size ? -1 : axis, part, part_elems};
    return true;
  }
  return false;
}

inline const QuadKernels* find_quads(const KernelSet& set, int64_t elem_bytes) {
  for (const QuadKernels& quads : set.quads) {
    if (quads.elem_bytes == elem_bytes) return &quads;
  }
  return nullptr;
}

inline int64_t quad_columns(int64_t elem_bytes) {
  return (elem_bytes == 1 ? kByteQuadColumnsBytes : kQuadColumnsBytes) / elem_bytes;
}

// The sides of tiles by way of quads, of about want_columns. False where rows are no whole steps.
inline bool shape_quads(Plan* plan, const Problem& problem, Side* rows, Side* columns,
                        int64_t want_columns) {
  plan->quads = find_quads(*plan->set, problem.elem_bytes);
  if (!plan->stream || plan->quads == nullptr) return false;
  rows->take(problem, unit_axis(problem, dst_stride));
  columns->take(problem, unit_axis(problem, src_stride));
  const int64_t run_bytes = plan->quads->columns_at_once > 1 ? kSmallQuadRunBytes : kQuadRunBytes;
  extend_sides(problem, rows, run_bytes / problem.elem_bytes, columns, want_columns);
  const int64_t step_bytes = plan->quads->step_bytes();
  if (!cut_quad_rows(problem, *rows, step_bytes, run_bytes, &plan->rows)) return false;
  plan->row_stride_bytes = src_stride(problem.axes[rows->axes[rows->num_axes - 1]]);
  return true;
}

// Where the quads of a tile come from and go to.
inline void set_quads(Plan* plan, const Problem& problem, const Side& rows, const Side& columns) {
  plan->src_offsets = offsets_of(problem, rows, plan->rows.elems + plan->shift_rows, src_stride);
  plan->dst_offsets = offsets_of(problem, columns, plan->columns.elems, dst_stride);
  plan->columns_per_run = 1;
  plan->in_pitch_bytes = kQuadRows * padded(round_up(plan->columns.elems * problem.elem_bytes,
                                                     plan->quads->row_step_bytes));
  plan->method = Method::tiles;
}

// Tiles by way of quads. Columns must begin with a line, or all as far behind one: where they are
// parts of one axis, the parts are shifted (see quad_engine.hpp).
inline bool try_quads(Plan* plan, const Problem& problem) {
  const int64_t want_columns = quad_columns(problem.elem_bytes);
  Side rows{dst_stride, {}, 0, 1};
  Side columns{src_stride, {}, 0, 1};
  if (!shape_quads(plan, problem, &rows, &columns, want_columns)) return false;
  const int64_t most_columns = kTileBytes / problem.elem_bytes / plan->rows.elems;
  plan->columns = cut(problem, columns, std::min(want_columns, most_columns), most_columns);
  if (plan->columns.elems < want_columns / 8) return false;
  if (rows.num_axes == 1 && plan->rows.part_axis >= 0) {
    plan->shift_rows = kLineBytes / problem.elem_bytes;
  }
  set_quads(plan, problem, rows, columns);
  plan->along_destination = magnitude(plan->row_stride_bytes) > kFarRowsBytes;
  set_loops(plan, problem, rows, columns);
  plan->way = Way::quads;
  plan->kernel = "quads";
  return has_whole_lines(*plan);
}

// Columns that begin anywhere, where they are long parts of one axis (see window_engine.hpp).
inline bool try_windows(Plan* plan, const Problem& problem) {
  const int64_t want_columns = quad_columns(problem.elem_bytes);
  Side rows{dst_stride, {}, 0, 1};
  Side columns{src_stride, {}, 0, 1};
  if (!shape_quads(plan, problem, &rows, &columns, want_columns)) return false;
  if (plan->quads->exchange_windows == nullptr || rows.num_axes > 1) return false;
  if (problem.axes[rows.axes[0]].size < kMinWindowTiles * plan->rows.elems) return false;
  plan->columns = cut(problem, columns, want_columns, want_columns);
  if (plan->columns.elems < want_columns / 4) return false;
  set_quads(plan, problem, rows, columns);
  plan->along_destination = true;
  set_loops(plan, problem, rows, columns);
  plan->way = Way::windows;
  plan->kernel = "windows";
  return true;
}

// The destination's innermost axes, some hundred elements of them, are a tile.
inline void plan_elements(Plan* plan, const Problem& problem) {
  Side elems{dst_stride, {}, 0, 1};
  const Side none{src_stride, {}, 0, 1};
  for (int i = problem.ndim - 1; i >= 0 && elems.elems < kFewElems; --i) elems.take(problem, i);
  plan->rows = cut(problem, elems, kFewElems);
  plan->src_offsets = offsets_of(problem, elems, plan->rows.elems, src_stride);
  plan->dst_offsets = offsets_of(problem, elems, plan->rows.elems, dst_stride);
  set_loops(plan, problem, elems, none);
}

// Rows that follow one another in the destination are moved in one go, until they fill a long run.
inline void plan_rows(Plan* plan, const Problem& problem) {
  Side rows{dst_stride, {}, 0, 1};
  const Side none{src_stride, {}, 0, 1};
  const int axis = unit_axis(problem, dst_stride);
  if (axis >= 0) {
    rows.take(problem, axis);
    plan->rows = cut(problem, rows, std::max<int64_t>(kRowsRunBytes / problem.elem_bytes, 1));
  }
  plan->src_offsets = offsets_of(problem, rows, plan->rows.elems, src_stride);
  set_loops(plan, problem, rows, none);
  if (!plan->stream || plan->rows.elems == 1) return;
  const TileLoop& inner = plan->loops[plan->num_loops - 1];
  const int64_t row_stride_bytes = src_stride(problem.axes[axis]);
  const int64_t block_bytes = plan->rows.elems * row_stride_bytes;
  if (inner.axis != axis && inner.src_step_bytes == problem.elem_bytes &&
      row_stride_bytes == inner.count * problem.elem_bytes && block_bytes <= kMaxBlockAheadBytes) {
    plan->block_ahead_bytes = block_bytes;
  }
}

// Elements of other sizes, by way of runs of the destination (see run_engine.hpp): those must be
// long.
inline bool try_runs(Plan* plan, const Problem& problem) {
  const int row_axis = unit_axis(problem, dst_stride);
  const int column_axis = unit_axis(problem, src_stride);
  if (!plan->stream || row_axis < 0 || column_axis < 0 || row_axis == column_axis) return false;
  if (size_class(problem.elem_bytes) >= 0 || problem.elem_bytes < 4) return false;
  const int64_t elem_bytes = problem.elem_bytes;
  int64_t want = kRunBytes / elem_bytes;
  while (want * want * elem_bytes > kTileBytes / 2) want = want * 3 / 4;
  want = std::max<int64_t>(want, 1);
  Side rows{dst_stride, {}, 0, 1};
  Side columns{src_stride, {}, 0, 1};
  rows.take(problem, row_axis);
  columns.take(problem, column_axis);
  extend_sides(problem, &rows, want, &columns, want);
  plan->rows = cut(problem, rows, want);
  const int64_t most_columns = std::max<int64_t>(kTileBytes / elem_bytes / plan->rows.elems, 1);
  plan->columns = cut(problem, columns, std::min(want, most_columns), most_columns);
  plan->src_offsets = offsets_of(problem, rows, plan->rows.elems, src_stride);
  set_columns(plan, problem, columns);
  set_loops(plan, problem, rows, columns);
  const int64_t run_bytes = plan->rows.elems * elem_bytes * plan->columns_per_run;
  if (run_bytes < kMinRunBytes) return false;
  plan->method = Method::tiles;
  plan->way = Way::runs;
  plan->kernel = "runs";
  return true;
}

// Rows are moved as they are where the next block of them is prefetched and each is whole lines;
// others go by way of runs, unless they are long.
inline void plan_long_rows(Plan* plan, const Problem& problem) {
  Plan runs = *plan;
  plan->method = Method::rows;
  plan_rows(plan, problem);
  if (problem.elem_bytes > kMaxRunElemBytes || !try_runs(&runs, problem)) return;
  if (plan->block_ahead_bytes > 0 && problem.elem_bytes % kLineBytes == 0 &&
      has_whole_lines(*plan)) {
    plan->unaligned = std::make_shared<const Plan>(std::move(runs));
  } else {
    *plan = std::move(runs);
  }
}

// False where tiles would not pay; *plan is then as it was.
inline bool try_tiles(Plan* plan, const Problem& problem) {
  const int row_axis = unit_axis(problem, dst_stride);
  const int column_axis = unit_axis(problem, src_stride);
  if (row_axis < 0 || column_axis < 0) return false;
  if (num_bytes(problem) <= kFewElems * problem.elem_bytes) return false;
  Plan tiles = *plan;
  plan_tiles(&tiles, problem, row_axis, column_axis);
  const int64_t tile_bytes = tiles.rows.elems * tiles.columns.elems * problem.elem_bytes;
  if (tile_bytes < kMinTileBytes && tiles.num_tiles > 1) return false;
  tiles.method = Method::tiles;
  tiles.kernel = tiles.block->name;
  Plan runs = *plan;
  if (try_runs(&runs, problem)) tiles = std::move(runs);
  Plan windows = *plan;
  if (!tiles.direct && try_windows(&windows, problem)) tiles = std::move(windows);
  Plan quads = *plan;
  if (!tiles.direct && try_quads(&quads, problem)) {
    quads.unaligned = std::make_shared<const Plan>(std::move(tiles));
    tiles = std::move(quads);
  }
  *plan = std::move(tiles);
  return true;
}

}  // namespace detail

// The ISA must be available. Throws std::bad_alloc when there is no memory for the tables.
inline Plan make_plan(const Problem& problem, int num_threads, Isa isa, bool stream) {
  const int64_t bytes = num_bytes(problem);
  const Problem folded = detail::fold_rows(problem);
  Plan plan{};
  plan.problem = problem;
  plan.num_threads = resolve_threads(num_threads, static_cast<uint64_t>(bytes));
  plan.isa = to_string(isa);
  plan.set = &kernel_set(isa);
  plan.stream = stream;
  plan.elem_bytes = folded.elem_bytes;
  plan.num_tiles = 1;
  if (bytes == 0) {
    plan.method = Method::nothing;
  } else if (folded.ndim == 0) {
    plan.method = Method::copy;
  } else if (folded.elem_bytes >= detail::kMinRowBytes) {
    detail::plan_long_rows(&plan, folded);
  } else if (!detail::try_tiles(&plan, folded)) {
    plan.method = Method::elements;
    detail::plan_elements(&plan, folded);
  }
  if (plan.kernel == nullptr) plan.kernel = to_string(plan.method);
  return plan;
}

inline Plan make_plan(const Problem& problem, int num_threads, Isa isa = active_isa()) {
  return make_plan(problem, num_threads, isa, num_bytes(problem) >= detail::min_stream_bytes());
}

// One line: "tiles of 128 x 512 (squares, x86-64-v3), 4-byte elements, axes 8192 8192, past the
// cache, 2 threads".
inline std::string describe(const Plan& plan) {
  std::string text = to_string(plan.method);
  if (plan.method == Method::tiles) {
    text += " of " + std::to_string(plan.rows.elems) + " x " + std::to_string(plan.columns.elems);
  }
  text += std::string(" (") + plan.kernel + ", " + plan.isa + "), ";
  text += std::to_string(plan.elem_bytes) + "-byte elements";
  for (int i = 0; i < plan.problem.ndim; ++i) {
    text += (i == 0 ? ", axes " : " ") + std::to_string(plan.problem.axes[i].size);
  }
  text += plan.stream ? ", past the cache" : ", through the cache";
  return text + ", " + std::to_string(plan.num_threads) + " threads";
}

}  // namespace hptp
