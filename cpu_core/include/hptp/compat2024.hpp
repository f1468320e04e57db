// The interface of the 2024 tensor permute library, for programs written against it: the same names
// and arguments over this core. dst_dims receives the destination's shape.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../hptp.hpp"
#include "convert.hpp"

namespace hptp {
namespace detail {

// Calls run(ndim, shape, perm) with this core's types, and fills dst_dims when it succeeds. Sizes
// of 2^63 and more turn negative, and are refused as such.
template <typename Run>
int run_2024(const uint64_t* src_dims, uint64_t src_ndim, const uint64_t* permute_idx,
             uint64_t* dst_dims, Run run) {
  if (src_ndim > kMaxDims) return HPTP_ERR_BAD_NDIM;
  if (src_ndim > 0 && (src_dims == nullptr || permute_idx == nullptr || dst_dims == nullptr)) {
    return HPTP_ERR_NULL_POINTER;
  }
  int64_t shape[kMaxDims];
  int64_t perm[kMaxDims];
  for (uint64_t i = 0; i < src_ndim; ++i) {
    shape[i] = static_cast<int64_t>(src_dims[i]);
    perm[i] = static_cast<int64_t>(permute_idx[i]);
  }
  const Status status = run(static_cast<int>(src_ndim), shape, perm);
  if (status != Status::ok) return static_cast<int>(status);
  for (uint64_t i = 0; i < src_ndim; ++i) dst_dims[i] = static_cast<uint64_t>(shape[perm[i]]);
  return HPTP_OK;
}

}  // namespace detail

// Returns HPTP_OK or a negative HPTP_ERR_*. nThreads <= 0 is automatic.
inline int permute(const void* src, void* dst, uint64_t dtypeSize, uint64_t* src_dims,
                   uint64_t src_ndim, uint64_t* permute_idx, uint64_t* dst_dims, int nThreads = 1) {
  return detail::run_2024(src_dims, src_ndim, permute_idx, dst_dims,
                          [&](int ndim, const int64_t* shape, const int64_t* perm) {
                            if (dtypeSize > detail::kMaxBytes) return Status::size_overflow;
                            return permute(src, dst, static_cast<size_t>(dtypeSize), ndim, shape,
                                           perm, nThreads);
                          });
}

// Converts as permute_convert() does: integers saturate, floating point rounds to nearest even.
template <typename TS, typename TD>
int permute_dtypeConv(const TS* src, TD* dst, uint64_t* src_dims, uint64_t src_ndim,
                      uint64_t* permute_idx, uint64_t* dst_dims, int nThreads = 1) {
  return detail::run_2024(src_dims, src_ndim, permute_idx, dst_dims,
                          [&](int ndim, const int64_t* shape, const int64_t* perm) {
                            return permute_convert(src, dst, ndim, shape, perm, nThreads);
                          });
}

}  // namespace hptp
