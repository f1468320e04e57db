// Any sizes, strides and permutation through the C API. Calls that are refused must write nothing;
// those that are accepted must stay inside memory that the arguments describe and be right.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../tests/check.hpp"
#include "../tests/reference.hpp"
#include "hptp.h"

namespace {

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

struct Span {
  int64_t begin;
  int64_t end;
};

Span span(const Sizes& shape, const Sizes& strides_bytes, int64_t elem_bytes) {
  Span bytes{0, elem_bytes};
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t reach = (shape[i] - 1) * strides_bytes[i];
    if (reach > 0) bytes.end += reach;
    if (reach < 0) bytes.begin += reach;
  }
  return bytes;
}

bool is_small(const Sizes& shape, int64_t elem_bytes) {
  int64_t bytes = elem_bytes;
  for (int64_t size : shape) {
    if (size <= 0 || bytes * size > kMaxSpanBytes) return false;
    bytes *= size;
  }
  return true;
}

void run(const Sizes& shape, const Sizes& perm, const Sizes& src_strides_bytes,
         const Sizes& dst_strides_bytes, int64_t elem_bytes, int num_threads) {
  const Sizes dst_shape = reference::permuted(shape, perm);
  const Span from = span(shape, src_strides_bytes, elem_bytes);
  const Span to = span(dst_shape, dst_strides_bytes, elem_bytes);
  if (from.end - from.begin > kMaxSpanBytes || to.end - to.begin > kMaxSpanBytes) return;
  std::vector<unsigned char> src(static_cast<size_t>(from.end - from.begin));
  std::vector<unsigned char> dst(static_cast<size_t>(to.end - to.begin), 0xA5);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<unsigned char>(i * 37);
  std::vector<unsigned char> expected = dst;
  const int status = hptp_permute_strided(
      src.data() - from.begin, dst.data() - to.begin, static_cast<size_t>(elem_bytes),
      static_cast<int>(shape.size()), shape.data(), perm.data(), src_strides_bytes.data(),
      dst_strides_bytes.data(), num_threads);
  if (status == HPTP_OK) {
    reference::permute(src.data() - from.begin, expected.data() - to.begin, elem_bytes, dst_shape,
                       reference::permuted(src_strides_bytes, perm), dst_strides_bytes);
  }
  CHECK(dst == expected);
}

bool is_permutation(const Sizes& perm) {
  std::vector<bool> seen(perm.size());
  for (int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(axis)]) {
      return false;
    }
    seen[static_cast<size_t>(axis)] = true;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const int ndim = bytes.next() & 7;
  const int64_t elem_bytes = bytes.next() & 31;
  const int num_threads = bytes.next() & 3;
  Sizes shape, perm, src_strides_bytes, dst_strides_bytes;
  for (int i = 0; i < ndim; ++i) {
    shape.push_back(bytes.next());
    perm.push_back(bytes.next() % (ndim + 1));
    src_strides_bytes.push_back(int64_t{bytes.next()} * (bytes.next() & 15));
    dst_strides_bytes.push_back(int64_t{bytes.next()} * (bytes.next() & 15));
  }
  if (is_small(shape, elem_bytes) && is_permutation(perm)) {
    run(shape, perm, src_strides_bytes, dst_strides_bytes, elem_bytes, num_threads);
  } else {  // whatever it answers, with no memory to write to it must not crash
    hptp_permute_strided(nullptr, nullptr, static_cast<size_t>(elem_bytes), ndim, shape.data(),
                         perm.data(), src_strides_bytes.data(), dst_strides_bytes.data(),
                         num_threads);
  }
  return 0;
}
