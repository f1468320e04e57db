// A permutation, reduced once. Every engine solves a Problem and nothing else.
//
// A Problem is a strided copy: its axes are in destination order, outermost first, each with one
// byte stride per side. canonicalize() makes the many spellings of one copy equal: axes of size 1
// are dropped, axes that are neighbours on both sides are fused, and a short last axis that is
// contiguous on both sides becomes part of the element. So shape (8,9,12,6,4,6,9,10) with perm
// (2,3,4,5,0,1,6,7) is the three-axis problem (72,1728,90) with perm (1,0,2), and one-byte
// (20,8,16,12,6) with perm (2,1,3,0,4) moves six-byte elements of shape (20,8,16,12).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

template <typename AnyProblem>
Strided dst_memory(const AnyProblem& problem) {
  Strided memory{problem.elem_bytes, problem.ndim, {}, {}};
  for (int i = 0; i < problem.ndim; ++i) {
    memory.shape[i] = problem.axes[i].size;
    memory.strides_bytes[i] = problem.axes[i].dst_stride_bytes;
  }
  return memory;
}

namespace detail {

// The steps of canonicalize() also serve problems whose axes carry more than an Axis does.
template <typename AnyProblem>
void drop_unit_axes(AnyProblem* problem) {
  int kept = 0;
  for (int i = 0; i < problem->ndim; ++i) {
    if (problem->axes[i].size != 1) problem->axes[kept++] = problem->axes[i];
  }
  problem->ndim = kept;
}

// Puts the axes in the order of the destination's memory. Stable: a no-op when it is C-contiguous.
template <typename AnyProblem>
void sort_by_dst_stride(AnyProblem* problem) {
  for (int i = 1; i < problem->ndim; ++i) {
    const auto axis = problem->axes[i];
    const uint64_t stride = magnitude(axis.dst_stride_bytes);
    int j = i;
    for (; j > 0 && magnitude(problem->axes[j - 1].dst_stride_bytes) < stride; --j) {
      problem->axes[j] = problem->axes[j - 1];
    }
    problem->axes[j] = axis;
  }
}

inline bool are_neighbours(const Axis& outer, const Axis& inner) {
  return outer.src_stride_bytes == inner.src_stride_bytes * inner.size &&
         outer.dst_stride_bytes == inner.dst_stride_bytes * inner.size;
}

template <typename AnyProblem>
void fuse_neighbours(AnyProblem* problem) {
  if (problem->ndim == 0) return;
  int last = 0;
  for (int i = 1; i < problem->ndim; ++i) {
    auto& outer = problem->axes[last];
    const auto inner = problem->axes[i];
    if (are_neighbours(outer, inner)) {
      const int64_t size = outer.size * inner.size;
      outer = inner;
      outer.size = size;
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

// The memory of both sides of a call, each in its own order of axes.
struct Sides {
  Strided src;
  Strided dst;
};

// Validates the arguments of a call; the one boundary where perm and sizes are checked.
//
// shape and src_strides_bytes follow the source's axes, dst_strides_bytes the destination's; null
// strides mean C-contiguous.
inline Status check_arguments(uint64_t src_elem_size, uint64_t dst_elem_size, int ndim,
                              const int64_t* shape, const int64_t* perm,
                              const int64_t* src_strides_bytes, const int64_t* dst_strides_bytes,
                              Sides* sides) {
  if (ndim < 0 || ndim > kMaxDims) return Status::bad_ndim;
  if (ndim > 0 && (shape == nullptr || perm == nullptr)) return Status::null_pointer;
  if (std::max(src_elem_size, dst_elem_size) > detail::kMaxBytes) return Status::size_overflow;
  uint64_t seen = 0;
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0) return Status::negative_size;
    if (perm[i] < 0 || perm[i] >= ndim || (seen >> perm[i] & 1) != 0) {
      return Status::not_a_permutation;
    }
    seen |= uint64_t{1} << perm[i];
  }
  sides->src.elem_bytes = static_cast<int64_t>(src_elem_size);
  sides->dst.elem_bytes = static_cast<int64_t>(dst_elem_size);
  sides->src.ndim = sides->dst.ndim = ndim;
  for (int i = 0; i < ndim; ++i) {
    sides->src.shape[i] = shape[i];
    sides->dst.shape[i] = shape[perm[i]];
  }
  const bool fits =
      set_strides(&sides->src, src_strides_bytes) && set_strides(&sides->dst, dst_strides_bytes);
  return fits ? Status::ok : Status::size_overflow;
}

// Validates the arguments of a call and reduces them. On an error *problem is left as it was.
inline Status make_problem(uint64_t elem_size, int ndim, const int64_t* shape, const int64_t* perm,
                           const int64_t* src_strides_bytes, const int64_t* dst_strides_bytes,
                           Problem* problem) {
  Sides sides;
  const Status status = check_arguments(elem_size, elem_size, ndim, shape, perm, src_strides_bytes,
                                        dst_strides_bytes, &sides);
  if (status != Status::ok) return status;
  Problem made;
  made.elem_bytes = sides.dst.elem_bytes;
  made.ndim = ndim;
  for (int i = 0; i < ndim; ++i) {
    made.axes[i] = {sides.dst.shape[i], sides.src.strides_bytes[perm[i]],
                    sides.dst.strides_bytes[i]};
  }
  canonicalize(&made);
  if (overlaps_itself(dst_memory(made))) return Status::overlap;
  *problem = made;
  return Status::ok;
}

// What must hold of the addresses of both elements 0 before a problem is executed on them.
inline Status check_memory(const Problem& problem, const void* src, const void* dst) {
  if (num_bytes(problem) == 0) return Status::ok;
  if (src == nullptr || dst == nullptr) return Status::null_pointer;
  if (overlaps(src, src_memory(problem), dst, dst_memory(problem))) return Status::overlap;
  return Status::ok;
}

}  // namespace hptp
