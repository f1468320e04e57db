// Any sizes, strides, types and coefficients through conversion, and any square in place. As in
// fuzz_c_api.cpp: refused calls write nothing, others stay inside their memory and are right. Built
// with tiny blocks, so that the little a fuzzer makes takes every path.
#include <algorithm>

#include "../tests/check.hpp"
#include "hptp/convert.hpp"
#include "hptp/dtype.hpp"
#include "hptp/in_place.hpp"
#include "input.hpp"

namespace {

using hptp::Conversion;
using hptp::Status;

// One number at a time, with the baseline's loops.
void convert_one(const Conversion& conversion, const hptp::Affine& affine, int64_t index,
                 const char* src, char* dst) {
  const hptp::detail::ConvertLoops loops = conversion.loops(hptp::Isa::scalar);
  if (affine.is_identity()) {
    loops.convert(src, dst, 1);
    return;
  }
  float value;
  if (affine.scale != nullptr) {
    loops.scale(src, affine.scale + index, true, &value, 1);
  } else {
    loops.to_float(src, reinterpret_cast<char*>(&value), 1);
  }
  if (affine.shift != nullptr) {
    loops.shift(&value, affine.shift + index, true, dst, 1);
  } else {
    loops.round(reinterpret_cast<const char*>(&value), dst, 1);
  }
}

// Along the destination's axes; `index` is that of the axis with coefficients.
void convert_all(const Arguments& call, const Conversion& conversion, const hptp::Affine& affine,
                 const unsigned char* src, unsigned char* dst, size_t level, int64_t index) {
  if (level == call.shape.size()) {
    convert_one(conversion, affine, index, reinterpret_cast<const char*>(src),
                reinterpret_cast<char*>(dst));
    return;
  }
  const size_t axis = static_cast<size_t>(call.perm[level]);
  for (int64_t i = 0; i < call.shape[axis]; ++i) {
    convert_all(call, conversion, affine, src + i * call.src_strides_bytes[axis],
                dst + i * call.dst_strides_bytes[level], level + 1,
                call.perm[level] == affine.axis ? i : index);
  }
}

void check_conversion(const Arguments& call, const Conversion& conversion,
                      const hptp::Affine& affine, int num_threads) {
  Memory src(call.shape, call.src_strides_bytes, conversion.from_bytes);
  Memory dst(reference::permuted(call.shape, call.perm), call.dst_strides_bytes,
             conversion.to_bytes);
  if (!src.fits || !dst.fits) return;
  Memory expected = dst;
  const Status status = hptp::permute_convert_strided(
      src.first(), dst.first(), conversion, call.ndim(), call.shape.data(), call.perm.data(),
      call.src_strides_bytes.data(), call.dst_strides_bytes.data(), num_threads, affine);
  if (status == Status::ok) {
    convert_all(call, conversion, affine, src.first(), expected.first(), 0, 0);
  }
  CHECK(dst.bytes == expected.bytes);
}

void check_in_place(const Arguments& call, int64_t elem_bytes, int num_threads) {
  const Sizes dst_shape = reference::permuted(call.shape, call.perm);
  Memory data(call.shape, call.src_strides_bytes, elem_bytes);
  if (!data.fits) return;
  Memory before = data;
  Memory expected = data;
  const Status status = hptp::permute_in_place(data.first(), static_cast<size_t>(elem_bytes),
                                               call.ndim(), call.shape.data(), call.perm.data(),
                                               call.src_strides_bytes.data(), num_threads);
  if (status == Status::ok) {
    reference::permute(before.first(), expected.first(), elem_bytes, dst_shape,
                       reference::permuted(call.src_strides_bytes, call.perm),
                       call.src_strides_bytes);
  }
  CHECK(data.bytes == expected.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const int ndim = bytes.next() & 7;
  const int num_threads = bytes.next() & 3;
  const int kind = bytes.next() & 15;  // bits: packed, scale, shift; all of them: in place
  const int8_t first = bytes.next();
  const int8_t second = bytes.next();
  Arguments call(ndim, &bytes);
  if (!call.has_permutation()) return 0;
  if (kind == 15) {
    const int64_t elem_bytes = 1 + (first & 31);
    if ((second & 1) != 0 && ndim > 0) {  // most random shapes are no square
      std::fill(call.shape.begin(), call.shape.end(), call.shape[0]);
    }
    if (!call.is_small(elem_bytes)) return 0;
    if ((second & 2) != 0) {
      call.src_strides_bytes = reference::packed_strides(call.shape, elem_bytes);
    }
    check_in_place(call, elem_bytes, num_threads);
    return 0;
  }
  const auto dtype = [](int8_t byte) { return static_cast<hptp::DType>((byte & 127) % 12); };
  const Conversion& conversion = hptp::conversion_of(dtype(first), dtype(second));
  if (!call.is_small(std::max(conversion.from_bytes, conversion.to_bytes))) return 0;
  if ((kind & 1) != 0) {
    call.src_strides_bytes = reference::packed_strides(call.shape, conversion.from_bytes);
    call.dst_strides_bytes =
        reference::packed_strides(reference::permuted(call.shape, call.perm), conversion.to_bytes);
  }
  std::vector<float> factors;
  for (int i = 0; i < 128; ++i) factors.push_back(static_cast<float>(i) / 3 - 20);
  hptp::Affine affine;
  affine.axis = ndim == 0 ? -1 : bytes.next() % ndim;
  if (affine.axis < 0) affine.axis = -1;
  if ((kind & 2) != 0) affine.scale = factors.data();
  if ((kind & 4) != 0) affine.shift = factors.data();
  check_conversion(call, conversion, affine, num_threads);
  return 0;
}
