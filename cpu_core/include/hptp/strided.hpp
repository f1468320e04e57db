// The memory of one strided array, relative to its element 0: its size, its extent, its limits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hptp {

constexpr int kMaxDims = 64;  // NumPy's limit, and 64 axes of size 2 already exceed any memory

struct Strided {
  int64_t elem_bytes;
  int ndim;
  int64_t shape[kMaxDims];
  int64_t strides_bytes[kMaxDims];
};

// Offsets, in bytes from element 0, of the first byte used and of the byte after the last one.
struct Extent {
  int64_t begin;
  int64_t end;
};

inline bool is_empty(const Strided& memory) {
  if (memory.elem_bytes == 0) return true;
  for (int i = 0; i < memory.ndim; ++i) {
    if (memory.shape[i] == 0) return true;
  }
  return false;
}

inline Extent extent(const Strided& memory) {
  Extent bytes{0, memory.elem_bytes};
  for (int i = 0; i < memory.ndim; ++i) {
    const int64_t reach = (memory.shape[i] - 1) * memory.strides_bytes[i];
    (reach < 0 ? bytes.begin : bytes.end) += reach;
  }
  return bytes;
}

namespace detail {

// What an array may span: the address space, and little enough that sums of a few spans cannot
// overflow an int64_t.
constexpr uint64_t kMaxBytes =
    std::min(static_cast<uint64_t>(std::numeric_limits<ptrdiff_t>::max()), uint64_t{1} << 60);

inline uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// *total += a * b, or false when that is beyond the address space.
inline bool add_product(uint64_t a, uint64_t b, uint64_t* total) {
  if (a != 0 && b > kMaxBytes / a) return false;
  if (a * b > kMaxBytes - *total) return false;
  *total += a * b;
  return true;
}

}  // namespace detail

// Sets the strides of an array whose shape is set: those given, or C-contiguous ones for null.
// Returns false when the array does not fit the address space. An empty array always fits.
inline bool set_strides(Strided* memory, const int64_t* strides_bytes) {
  if (is_empty(*memory)) {
    for (int i = 0; i < memory->ndim; ++i) memory->strides_bytes[i] = memory->elem_bytes;
    return true;
  }
  uint64_t packed_bytes = static_cast<uint64_t>(memory->elem_bytes);
  uint64_t extent_bytes = packed_bytes;
  if (packed_bytes > detail::kMaxBytes) return false;
  for (int i = memory->ndim - 1; i >= 0; --i) {
    const uint64_t size = static_cast<uint64_t>(memory->shape[i]);
    memory->strides_bytes[i] =
        strides_bytes != nullptr ? strides_bytes[i] : static_cast<int64_t>(packed_bytes);
    const uint64_t stride_bytes = detail::magnitude(memory->strides_bytes[i]);
    if (size > detail::kMaxBytes / packed_bytes) return false;
    packed_bytes *= size;
    if (size > 1 && !detail::add_product(size - 1, stride_bytes, &extent_bytes)) return false;
  }
  return true;
}

}  // namespace hptp
