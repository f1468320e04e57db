// The oracle of the C++ tests: one element after the other, nothing shared with the core.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace reference {

using Sizes = std::vector<int64_t>;

inline Sizes packed_strides(const Sizes& shape, int64_t elem_bytes) {
  Sizes strides_bytes(shape.size());
  int64_t stride_bytes = elem_bytes;
  for (size_t i = shape.size(); i-- > 0;) {
    strides_bytes[i] = stride_bytes;
    stride_bytes *= shape[i];
  }
  return strides_bytes;
}

inline Sizes permuted(const Sizes& sizes, const Sizes& perm) {
  Sizes result;
  for (int64_t axis : perm) result.push_back(sizes[static_cast<size_t>(axis)]);
  return result;
}

// Moves element after element; shape and strides are all in destination order.
inline void permute(const unsigned char* src, unsigned char* dst, int64_t elem_bytes,
                    const Sizes& shape, const Sizes& src_strides_bytes,
                    const Sizes& dst_strides_bytes, size_t axis = 0) {
  if (axis == shape.size()) {
    // Elements of no bytes may lie at null, which memcpy refuses whatever the count.
    if (elem_bytes != 0) std::memcpy(dst, src, static_cast<size_t>(elem_bytes));
    return;
  }
  for (int64_t i = 0; i < shape[axis]; ++i) {
    permute(src + i * src_strides_bytes[axis], dst + i * dst_strides_bytes[axis], elem_bytes, shape,
            src_strides_bytes, dst_strides_bytes, axis + 1);
  }
}

inline std::vector<unsigned char> random_bytes(size_t count, std::mt19937_64* random) {
  std::vector<unsigned char> bytes(count);
  uint64_t state = (*random)() | 1;  // a generator of our own: most of the test's time went here
  for (unsigned char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<unsigned char>(state >> 56);
  }
  return bytes;
}

}  // namespace reference
