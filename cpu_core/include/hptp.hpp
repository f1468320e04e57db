// hptp: tensor permute at memory speed. The C++17 API.
//
// Header-only: include this file and link the system's threads library. perm is NumPy's: axis
// perm[i] of the source becomes axis i of the destination. Arrays are opaque bytes: elem_size is
// the size of one element, strides are in bytes, and num_threads <= 0 means automatic. A call that
// does not return Status::ok has written nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>

#include "hptp/convert.hpp"
#include "hptp/execute.hpp"
#include "hptp/in_place.hpp"
#include "hptp/plan.hpp"
#include "hptp/plan_cache.hpp"
#include "hptp/problem.hpp"
#include "hptp/status.hpp"

namespace hptp {

// Permutes strided arrays. src_strides_bytes follows the source's axes, dst_strides_bytes the
// destination's; null means C-contiguous. src and dst are the addresses of element 0; strides may
// be negative, and zero on the source.
[[nodiscard]] inline Status permute_strided(const void* src, void* dst, size_t elem_size, int ndim,
                                            const int64_t* shape, const int64_t* perm,
                                            const int64_t* src_strides_bytes,
                                            const int64_t* dst_strides_bytes,
                                            int num_threads = 0) noexcept {
  Problem problem;
  Status status =
      make_problem(elem_size, ndim, shape, perm, src_strides_bytes, dst_strides_bytes, &problem);
  if (status == Status::ok) status = check_memory(problem, src, dst);
  return status == Status::ok ? execute_cached(problem, src, dst, num_threads) : status;
}

// Permutes the C-contiguous array src of `shape` into the C-contiguous array dst.
[[nodiscard]] inline Status permute(const void* src, void* dst, size_t elem_size, int ndim,
                                    const int64_t* shape, const int64_t* perm,
                                    int num_threads = 0) noexcept {
  return permute_strided(src, dst, elem_size, ndim, shape, perm, nullptr, nullptr, num_threads);
}

// permute(src, dst, sizeof(float), {64, 3, 224, 224}, {0, 2, 3, 1})
[[nodiscard]] inline Status permute(const void* src, void* dst, size_t elem_size,
                                    std::initializer_list<int64_t> shape,
                                    std::initializer_list<int64_t> perm,
                                    int num_threads = 0) noexcept {
  if (shape.size() > kMaxDims) return Status::bad_ndim;
  if (shape.size() != perm.size()) return Status::not_a_permutation;
  return permute(src, dst, elem_size, static_cast<int>(shape.size()), shape.begin(), perm.begin(),
                 num_threads);
}

}  // namespace hptp
