// Any sizes, strides and permutation through the C API. Calls that are refused must write nothing;
// those that are accepted must stay inside memory that the arguments describe and be right.
#include <algorithm>

#include "../tests/check.hpp"
#include "hptp.h"
#include "input.hpp"

namespace {

void run(const Arguments& call, int64_t elem_bytes, int num_threads) {
  const Sizes dst_shape = reference::permuted(call.shape, call.perm);
  Memory src(call.shape, call.src_strides_bytes, elem_bytes);
  Memory dst(dst_shape, call.dst_strides_bytes, elem_bytes);
  if (!src.fits || !dst.fits) return;
  std::fill(dst.bytes.begin(), dst.bytes.end(), static_cast<unsigned char>(0xA5));
  Memory expected = dst;
  const int status = hptp_permute_strided(
      src.first(), dst.first(), static_cast<size_t>(elem_bytes), call.ndim(), call.shape.data(),
      call.perm.data(), call.src_strides_bytes.data(), call.dst_strides_bytes.data(), num_threads);
  if (status == HPTP_OK) {
    reference::permute(src.first(), expected.first(), elem_bytes, dst_shape,
                       reference::permuted(call.src_strides_bytes, call.perm),
                       call.dst_strides_bytes);
  }
  CHECK(dst.bytes == expected.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const int ndim = bytes.next() & 7;
  const int64_t elem_bytes = bytes.next() & 31;
  const int num_threads = bytes.next() & 3;
  const Arguments call(ndim, &bytes);
  if (call.is_small(elem_bytes) && call.has_permutation()) {
    run(call, elem_bytes, num_threads);
  } else {  // whatever it answers, with no memory to write to it must not crash
    hptp_permute_strided(nullptr, nullptr, static_cast<size_t>(elem_bytes), ndim, call.shape.data(),
                         call.perm.data(), call.src_strides_bytes.data(),
                         call.dst_strides_bytes.data(), num_threads);
  }
  return 0;
}
