// What the fuzz targets share: arguments from bytes, and the memory they describe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../tests/reference.hpp"

using reference::Sizes;

constexpr int64_t kMaxSpanBytes = 1 << 14;

// Reads the fuzzer's bytes one by one; zero when they are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int8_t next() { return position_ < size_ ? static_cast<int8_t>(data_[position_++]) : int8_t{0}; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t position_ = 0;
};

// The arguments of a call as they come, right or wrong.
struct Arguments {
  Sizes shape;
  Sizes perm;
  Sizes src_strides_bytes;
  Sizes dst_strides_bytes;

  Arguments(int ndim, Bytes* bytes) {
    for (int i = 0; i < ndim; ++i) {
      shape.push_back(bytes->next());
      perm.push_back(bytes->next() % (ndim + 1));
      src_strides_bytes.push_back(int64_t{bytes->next()} * (bytes->next() & 15));
      dst_strides_bytes.push_back(int64_t{bytes->next()} * (bytes->next() & 15));
    }
  }

  int ndim() const { return static_cast<int>(shape.size()); }

  bool has_permutation() const {
    std::vector<bool> seen(perm.size());
    for (int64_t axis : perm) {
      if (axis < 0 || axis >= ndim() || seen[static_cast<size_t>(axis)]) return false;
      seen[static_cast<size_t>(axis)] = true;
    }
    return true;
  }

  bool is_small(int64_t elem_bytes) const {
    int64_t bytes = std::max<int64_t>(elem_bytes, 1);  // elements of none take time as well
    for (int64_t size : shape) {
      if (size <= 0 || bytes * size > kMaxSpanBytes) return false;
      bytes *= size;
    }
    return true;
  }
};

// The memory of one side, unless it is more than kMaxSpanBytes.
struct Memory {
  std::vector<unsigned char> bytes;
  int64_t before = 0;  // of element 0
  bool fits = false;

  Memory(const Sizes& shape, const Sizes& strides_bytes, int64_t elem_bytes) {
    int64_t after = elem_bytes;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t reach = (shape[i] - 1) * strides_bytes[i];
      (reach > 0 ? after : before) += reach > 0 ? reach : -reach;
    }
    fits = before + after <= kMaxSpanBytes;
    if (!fits) return;
    bytes.resize(static_cast<size_t>(before + after));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37);
  }

  unsigned char* first() { return bytes.data() + before; }
};
