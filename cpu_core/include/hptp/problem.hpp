// A permutation, reduced once. Every engine solves a Problem and nothing else.
//
// A Problem is a strided copy: its axes are in destination order, outermost first, each with one
// byte stride per side. canonicalize() makes the many spellings of one copy equal: axes of size 1
// are dropped, axes that are neighbours on both sides are fused, and a short last axis that is
// contiguous on both sides becomes part of the element. So shape (8,9,12,6,4,6,9,10) with perm
// (2,3,4,5,0,1,6,7) is the three-axis problem (72,1728,90) with perm (1,0,2), and one-byte
// (20,8,16,12,6) with perm (2,1,3,0,4) moves six-byte elements of shape (20,8,16,12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "overlap.hpp"
#include "status.hpp"
#include "strided.hpp"

namespace hptp {

constexpr int64_t kMaxFoldedElemBytes = 16;  // the widest element the kernels move in one register

struct Axis {
  int64_t size;
  int64_t src_stride_bytes;
  int64_t dst_stride_bytes;
};

struct Problem {
  int64_t elem_bytes;
  int ndim;
  Axis axes[kMaxDims];
};

inline bool operator==(const Axis& a, const Axis& b) {
  return a.size == b.size && a.src_stride_bytes == b.src_stride_bytes &&
         a.dst_stride_bytes == b.dst_stride_bytes;
}

inline bool operator==(const Problem& a, const Problem& b) {
  if (a.elem_bytes != b.elem_bytes || a.ndim != b.ndim) return false;
  for (int i = 0; i < a.ndim; ++i) {
    if (!(a.axes[i] == b.axes[i])) return false;
  }
  return true;
}

// The bytes written; 0 when there is nothing to do.
inline int64_t num_bytes(const Problem& problem) {
  int64_t bytes = problem.elem_bytes;
  for (int i = 0; i < problem.ndim; ++i) bytes *= problem.axes[i].size;
  return bytes;
}

inline Strided src_memory(const Problem& problem) {
  Strided memory{problem.elem_bytes, problem.ndim, {}, {}};
  for (int i = 0; i < problem.ndim; ++i) {
    memory.shape[i] = problem.axes[i].size;
    memory.strides_bytes[i] = problem.axes[i].src_stride_bytes;
  }
  return memory;
}

inline Strided dst_memory(const Problem& problem) {
  Strided memory{problem.elem_bytes, problem.ndim, {}, {}};
  for (int i = 0; i < problem.ndim; ++i) {
    memory.shape[i] = problem.axes[i].size;
    memory.strides_bytes[i] = problem.axes[i].dst_stride_bytes;
  }
  return memory;
}

namespace detail {

inline void drop_unit_axes(Problem* problem) {
  int kept = 0;
  for (int i = 0; i < problem->ndim; ++i) {
    if (problem->axes[i].size != 1) problem->axes[kept++] = problem->axes[i];
  }
  problem->ndim = kept;
}

// Puts the axes in the order of the destination's memory. Stable: a no-op when it is C-contiguous.
inline void sort_by_dst_stride(Problem* problem) {
  for (int i = 1; i < problem->ndim; ++i) {
    const Axis axis = problem->axes[i];
    const uint64_t stride = magnitude(axis.dst_stride_bytes);
    int j = i;
    for (; j > 0 && magnitude(problem->axes[j - 1].dst_stride_bytes) < stride; --j) {
      problem->axes[j] = problem->axes[j - 1];
    }
    problem->axes[j] = axis;
  }
}

inline void fuse_neighbours(Problem* problem) {
  if (problem->ndim == 0) return;
  int last = 0;
  for (int i = 1; i < problem->ndim; ++i) {
    Axis& outer = problem->axes[last];
    const Axis& inner = problem->axes[i];
    if (outer.src_stride_bytes == inner.src_stride_bytes * inner.size &&
        outer.dst_stride_bytes == inner.dst_stride_bytes * inner.size) {
      outer = {outer.size * inner.size, inner.src_stride_bytes, inner.dst_stride_bytes};
    } else {
      problem->axes[++last] = inner;
    }
  }
  problem->ndim = last + 1;
}

inline void fold_last_axis(Problem* problem) {
  if (problem->ndim == 0) return;
  const Axis& last = problem->axes[problem->ndim - 1];
  const bool contiguous =
      last.src_stride_bytes == problem->elem_bytes && last.dst_stride_bytes == problem->elem_bytes;
  if (!contiguous || last.size * problem->elem_bytes > kMaxFoldedElemBytes) return;
  problem->elem_bytes *= last.size;
  problem->ndim -= 1;
}

}  // namespace detail

// Reduces a valid problem to its canonical form. An empty one becomes one axis of size 0.
inline void canonicalize(Problem* problem) {
  if (num_bytes(*problem) == 0) {
    problem->ndim = 1;
    problem->axes[0] = {0, problem->elem_bytes, problem->elem_bytes};
    return;
  }
  detail::drop_unit_axes(problem);
  detail::sort_by_dst_stride(problem);
  detail::fuse_neighbours(problem);
  detail::fold_last_axis(problem);
}

// Validates the arguments of a call and reduces them; the one boundary where sizes are checked.
//
// shape and src_strides_bytes follow the source's axes, dst_strides_bytes the destination's; null
// strides mean C-contiguous. On an error *problem is left as it was.
inline Status make_problem(int64_t elem_bytes, int ndim, const int64_t* shape, const int64_t* perm,
                           const int64_t* src_strides_bytes, const int64_t* dst_strides_bytes,
                           Problem* problem) {
  if (ndim < 0 || ndim > kMaxDims) return Status::bad_ndim;
  if (ndim > 0 && (shape == nullptr || perm == nullptr)) return Status::null_pointer;
  uint64_t seen = 0;
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0) return Status::negative_size;
    if (perm[i] < 0 || perm[i] >= ndim || (seen >> perm[i] & 1) != 0) {
      return Status::not_a_permutation;
    }
    seen |= uint64_t{1} << perm[i];
  }

  Strided src{elem_bytes, ndim, {}, {}};
  Strided dst{elem_bytes, ndim, {}, {}};
  for (int i = 0; i < ndim; ++i) {
    src.shape[i] = shape[i];
    dst.shape[i] = shape[perm[i]];
  }
  if (!set_strides(&src, src_strides_bytes) || !set_strides(&dst, dst_strides_bytes)) {
    return Status::size_overflow;
  }

  Problem made;
  made.elem_bytes = elem_bytes;
  made.ndim = ndim;
  for (int i = 0; i < ndim; ++i) {
    made.axes[i] = {dst.shape[i], src.strides_bytes[perm[i]], dst.strides_bytes[i]};
  }
  canonicalize(&made);
  if (overlaps_itself(dst_memory(made))) return Status::overlap;
  *problem = made;
  return Status::ok;
}

}  // namespace hptp
