// The shape of a tile: which axes of a problem it holds, and how much of them.
//
// A tile is the cross product of *rows* and *columns*. Columns are a run of the source: as many of
// its innermost axes, the last of them perhaps in parts, as it takes to read a long stretch of
// memory. Rows are a run of the destination, made the same way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels.hpp"
#include "problem.hpp"

namespace hptp {

// One side of a tile: whole axes, and `part` indices at a time of the outermost of them.
struct Run {
  int64_t elems = 1;       // of a whole tile
  int part_axis = -1;      // -1: every tile is whole
  int64_t part = 1;        // indices a tile takes of that axis
  int64_t part_elems = 1;  // elements for each of them
};

namespace detail {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a - 1) / b + 1; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

inline int64_t src_stride(const Axis& axis) { return axis.src_stride_bytes; }
inline int64_t dst_stride(const Axis& axis) { return axis.dst_stride_bytes; }
using Stride = int64_t (*)(const Axis&);

// Axes that follow one another in the memory of one side, innermost first.
struct Side {
  Stride stride;
  int axes[kMaxDims];
  int num_axes;
  int64_t elems;

  bool has(int axis) const { return std::find(axes, axes + num_axes, axis) != axes + num_axes; }

  void take(const Problem& problem, int axis) {
    axes[num_axes++] = axis;
    elems *= problem.axes[axis].size;
  }

  // Takes the axis next in memory, unless there is none or the other side has it.
  bool extend(const Problem& problem, const Side& other) {
    for (int i = problem.ndim - 1; i >= 0; --i) {
      if (stride(problem.axes[i]) == elems * problem.elem_bytes && !has(i) && !other.has(i)) {
        take(problem, i);
        return true;
      }
    }
    return false;
  }
};

// Lets the two sides take turns, the shorter one first, until each has the elements it wants or is
// stuck.
inline void extend_sides(const Problem& problem, Side* rows, int64_t want_rows, Side* columns,
                         int64_t want_columns) {
  const auto extend = [&](Side* side) {
    if (side->elems >= (side == rows ? want_rows : want_columns)) return false;
    return side->extend(problem, side == rows ? *columns : *rows);
  };
  for (;;) {
    Side* shorter = rows->elems <= columns->elems ? rows : columns;
    Side* longer = shorter == rows ? columns : rows;
    if (!extend(shorter) && !extend(longer)) return;
  }
}

// Cuts the outermost axis of a side into equal parts, so that a tile has about `want` elements, and
// whole lines of them where it can. An axis a little longer stays whole, up to `most`: runs that
// end where the memory's own do have no lines in common.
inline Run cut(const Problem& problem, const Side& side, int64_t want,
               int64_t most = std::numeric_limits<int64_t>::max()) {
  Run run;
  const int axis = side.axes[side.num_axes - 1];
  const int64_t size = problem.axes[axis].size;
  run.part_elems = side.elems / size;
  run.part = side.elems <= std::min(want * 5 / 2, most)
                 ? size
                 : std::max<int64_t>(want / run.part_elems, 1);
  run.part = ceil_div(size, ceil_div(size, run.part));
  if (run.part_elems == 1 && kLineBytes % problem.elem_bytes == 0) {
    run.part = std::min(round_up(run.part, kLineBytes / problem.elem_bytes), size);
  }
  if (run.part < size) run.part_axis = axis;
  run.elems = run.part * run.part_elems;
  return run;
}

// The offset in bytes of each of the first `elems` elements of some axes, the first axis varying
// fastest.
inline std::vector<int64_t> offsets_of(const Problem& problem, const Side& side, int64_t elems,
                                       Stride stride) {
  std::vector<int64_t> offsets(1, 0);
  offsets.reserve(static_cast<size_t>(elems));
  for (int k = 0; k < side.num_axes; ++k) {
    const Axis& axis = problem.axes[side.axes[k]];
    const int64_t inner = static_cast<int64_t>(offsets.size());
    const int64_t total = std::min(inner * axis.size, elems);
    for (int64_t i = inner; i < total; ++i) {
      offsets.push_back(offsets[static_cast<size_t>(i - inner)] + stride(axis));
    }
  }
  return offsets;
}

}  // namespace detail
}  // namespace hptp
