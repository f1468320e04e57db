// Cutting a conversion into slabs: boxes that fit the second cache, and are long both along the
// source's innermost axes and along the destination's, so that both are met in bursts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "problem.hpp"

namespace hptp {
namespace detail {

#ifdef HPTP_TINY_BLOCKS  // for tests: small tensors take every path
constexpr int64_t kMaxSlabElems = 24;
constexpr int64_t kSlabBytes = 192;
constexpr int64_t kBurstBytes = 16;
constexpr int64_t kReadElems = 8;
#else
constexpr int64_t kMaxSlabElems = 128 << 10;
constexpr int64_t kSlabBytes = 256 << 10;  // half of a second cache that is common
constexpr int64_t kBurstBytes = 1 << 10;
constexpr int64_t kReadElems = 1 << 10;
#endif

// In a slab of numbers of so many bytes. On a Zen 3 guest a quarter of it takes up to twice as
// long, since runs become short.
inline int64_t slab_elems(int64_t elem_bytes) {
  return std::min(kMaxSlabElems, kSlabBytes / elem_bytes);
}

struct ConvertAxis : Axis {
  bool has_coefficients;  // scale and shift vary along it
};

inline bool are_neighbours(const ConvertAxis& outer, const ConvertAxis& inner) {
  return !outer.has_coefficients && !inner.has_coefficients &&
         are_neighbours(static_cast<const Axis&>(outer), static_cast<const Axis&>(inner));
}

// The canonical problem of a conversion: elements differ in size, so none is folded.
struct ConvertProblem {
  int64_t elem_bytes;  // of the destination
  int ndim;
  ConvertAxis axes[kMaxDims];
};

// How to cut a problem: `step` indices of each axis at a time.
struct Slabs {
  int dst_order[kMaxDims];  // the axes as they lie in the destination, outermost first
  int src_order[kMaxDims];
  int64_t step[kMaxDims];
  int64_t count;
};

struct Slab {
  int64_t begin[kMaxDims];
  int64_t size[kMaxDims];
};

// Grows the steps of axes, innermost first, until a run of want_elems is reached, or the slab has
// max_elems. Axes are cut into equal parts.
inline void grow_steps(const ConvertProblem& problem, const int* order, int64_t want_elems,
                       int64_t max_elems, int64_t* slab_elems, int64_t* step) {
  int64_t run = 1;
  for (int i = problem.ndim - 1; i >= 0 && run < want_elems; --i) {
    const int axis = order[i];
    const int64_t size = problem.axes[axis].size;
    const int64_t others = *slab_elems / step[axis];
    const int64_t most = std::min((want_elems - 1) / run + 1, max_elems / others);
    if (most > step[axis]) {
      const int64_t parts = (size - 1) / std::min(most, size) + 1;
      step[axis] = (size - 1) / parts + 1;
      *slab_elems = others * step[axis];
    }
    if (step[axis] < size) return;
    run *= size;
  }
}

// What narrows is read as it lies in the source, in long runs, and written by way of quads, which
// needs short ones. (With 1 KB on both sides a 2-D array takes twice as long.)
inline Slabs cut_slabs(const ConvertProblem& problem, int64_t max_elems, bool widens) {
  Slabs slabs;
  for (int i = 0; i < problem.ndim; ++i) {
    slabs.dst_order[i] = slabs.src_order[i] = i;
    slabs.step[i] = 1;
  }
  std::stable_sort(slabs.src_order, slabs.src_order + problem.ndim, [&](int a, int b) {
    return magnitude(problem.axes[a].src_stride_bytes) >
           magnitude(problem.axes[b].src_stride_bytes);
  });
  int64_t elems = 1;
  const auto grow = [&](int64_t dst_run, int64_t src_run) {
    grow_steps(problem, slabs.dst_order, dst_run, max_elems, &elems, slabs.step);
    grow_steps(problem, slabs.src_order, src_run, max_elems, &elems, slabs.step);
  };
  const int64_t burst = kBurstBytes / problem.elem_bytes;
  if (widens) {
    grow(burst, burst);
  } else {
    grow(burst / 4, kReadElems);
  }
  grow(max_elems, max_elems);
  slabs.count = 1;
  for (int i = 0; i < problem.ndim; ++i) {
    slabs.count *= (problem.axes[i].size - 1) / slabs.step[i] + 1;
  }
  return slabs;
}

inline Slab slab_at(const ConvertProblem& problem, const Slabs& slabs, int64_t index) {
  Slab slab;
  for (int i = problem.ndim - 1; i >= 0; --i) {
    const int64_t size = problem.axes[i].size;
    const int64_t steps = (size - 1) / slabs.step[i] + 1;
    slab.begin[i] = index % steps * slabs.step[i];
    slab.size[i] = std::min(slabs.step[i], size - slab.begin[i]);
    index /= steps;
  }
  return slab;
}

}  // namespace detail
}  // namespace hptp
