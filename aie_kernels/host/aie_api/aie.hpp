// The part of the AIE API that the kernels use, for the host compiler: what a core would compute,
// with what a core would not forgive checked. Semantics: AIE API reference and npu-facts section 5.
//
// A check that fails does not touch memory; it is recorded, and the loader reads the first one
// after the kernel returns (host_end). The limits are the stricter of AIE2 and AIE2P: a vector is a
// power of two of at most 1024 bits, and loads and stores are aligned to its size, at most 64
// bytes.

#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

namespace aie {

namespace host {

struct Region {
  uintptr_t begin, end;
};

// What one call of a kernel may touch, and what it did.
struct State {
  std::array<Region, 8> regions{};
  unsigned num_regions = 0;
  unsigned dim_m = 0, dim_n = 0;
  uint64_t bytes_loaded = 0, bytes_stored = 0, vshuffles = 0;
  char error[160] = "";
};

inline thread_local State state;

template <typename... Args>
void fail(const char* format, Args... values) {
  if (state.error[0] == '\0') std::snprintf(state.error, sizeof state.error, format, values...);
}

inline bool check(const void* pointer, unsigned bytes, unsigned alignment, const char* action) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (unsigned i = 0; i < state.num_regions; ++i) {
    const Region& region = state.regions[i];
    if (address >= region.begin && address + bytes <= region.end) {
      if (address % alignment == 0) return true;
      fail("%s of %u bytes at byte %zu of buffer %u is not aligned to %u bytes", action, bytes,
           static_cast<size_t>(address - region.begin), i, alignment);
      return false;
    }
  }
  fail("%s of %u bytes at %p is outside every buffer", action, bytes, pointer);
  return false;
}

inline bool check_read(const void* pointer, unsigned bytes, unsigned alignment) {
  state.bytes_loaded += bytes;
  return check(pointer, bytes, alignment, "load");
}

inline bool check_write(const void* pointer, unsigned bytes, unsigned alignment) {
  state.bytes_stored += bytes;
  return check(pointer, bytes, alignment, "store");
}

}  // namespace host

// --- Vectors -------------------------------------------------------------------------------------

template <typename T, unsigned Elems>
class vector {
 public:
  static constexpr unsigned kBytes = Elems * sizeof(T);
  static_assert((Elems & (Elems - 1)) == 0, "the number of elements is a power of two");
  static_assert(kBytes >= 16 && kBytes <= 128, "a vector has 128 to 1024 bits");

  T get(unsigned i) const { return elems[checked(i, Elems)]; }
  void set(T value, unsigned i) { elems[checked(i, Elems)] = value; }

  template <unsigned Part>
  vector<T, Part> extract(unsigned i) const {
    vector<T, Part> part;
    std::memcpy(part.elems, elems + checked(i, Elems / Part) * Part, part.kBytes);
    return part;
  }

  template <unsigned Part>
  vector& insert(unsigned i, const vector<T, Part>& part) {
    std::memcpy(elems + checked(i, Elems / Part) * Part, part.elems, part.kBytes);
    return *this;
  }

  template <typename U>
  vector<U, kBytes / sizeof(U)> cast_to() const {
    vector<U, kBytes / sizeof(U)> cast;
    std::memcpy(cast.elems, elems, kBytes);
    return cast;
  }

  T elems[Elems] = {};

 private:
  static unsigned checked(unsigned i, unsigned count) {
    if (i < count) return i;
    host::fail("index %u of %u in a vector", i, count);
    return 0;
  }
};

template <unsigned Elems, typename T>
vector<T, Elems> load_v(const T* pointer) {
  vector<T, Elems> v;
  const unsigned alignment = v.kBytes < 64 ? v.kBytes : 64;
  if (host::check_read(pointer, v.kBytes, alignment)) std::memcpy(v.elems, pointer, v.kBytes);
  return v;
}

template <typename T, unsigned Elems>
void store_v(T* pointer, const vector<T, Elems>& v) {
  const unsigned alignment = v.kBytes < 64 ? v.kBytes : 64;
  if (host::check_write(pointer, v.kBytes, alignment)) std::memcpy(pointer, v.elems, v.kBytes);
}

}  // namespace aie

// --- VSHUFFLE ------------------------------------------------------------------------------------

// T{bits}_{R}x{C}: a, or a and then b, as a row-major R×C matrix of elements of that many bits,
// transposed; lo and hi are the halves of a result of 1024 bits. A matrix smaller than a vector is
// transposed again and again over the whole of a.
enum VShuffleMode : unsigned {
  T8_64x2_lo,
  T8_64x2_hi,
  T16_32x2_lo,
  T16_32x2_hi,
  T32_16x2_lo,
  T32_16x2_hi,
  T64_8x2_lo,
  T64_8x2_hi,
  T128_4x2_lo,
  T128_4x2_hi,
  T256_2x2_lo,
  T256_2x2_hi,
  T128_2x4_lo,
  T128_2x4_hi,
  T64_2x8_lo,
  T64_2x8_hi,
  T32_2x16_lo,
  T32_2x16_hi,
  T16_2x32_lo,
  T16_2x32_hi,
  T8_2x64_lo,
  T8_2x64_hi,
  T512_1x2_lo,
  T512_1x2_hi,
  T16_16x4_lo,
  T16_16x4_hi,
  T16_4x16_lo,
  T16_4x16_hi,
  T16_8x4,
  T16_4x8,
  T32_8x4_lo,
  T32_8x4_hi,
  T32_4x8_lo,
  T32_4x8_hi,
  T32_4x4,
  T8_8x8,
  T8_16x4,
  T8_4x16,
  T16_1x2_flip,
  T16_4x4,
  T16_4x2,
  T16_2x4,
  T16_8x2,
  T16_2x8,
  T16_16x2,
  T16_2x16,
  T8_8x4,
  T8_4x8,
};

namespace aie::host {

// `in`, a row-major rows×cols matrix of elements of Bytes bytes, transposed.
template <unsigned Bytes>
void transpose_elements(const uint8_t* in, uint8_t* out, unsigned rows, unsigned cols) {
  for (unsigned c = 0; c < cols; ++c) {
    for (unsigned r = 0; r < rows; ++r, out += Bytes) {
      std::memcpy(out, in + (r * cols + c) * Bytes, Bytes);
    }
  }
}

inline void transpose_matrix(const uint8_t* in, uint8_t* out, unsigned bytes, unsigned rows,
                             unsigned cols) {
  switch (bytes) {
    case 1:
      return transpose_elements<1>(in, out, rows, cols);
    case 2:
      return transpose_elements<2>(in, out, rows, cols);
    case 4:
      return transpose_elements<4>(in, out, rows, cols);
    case 8:
      return transpose_elements<8>(in, out, rows, cols);
    case 16:
      return transpose_elements<16>(in, out, rows, cols);
    case 32:
      return transpose_elements<32>(in, out, rows, cols);
    case 64:
      return transpose_elements<64>(in, out, rows, cols);
    default:
      fail("no shuffle moves chunks of %u bytes", bytes);
  }
}

struct Matrix {
  unsigned bits, rows, cols;
};

inline constexpr Matrix kShuffleMatrices[] = {
    {8, 64, 2},  {16, 32, 2}, {32, 16, 2}, {64, 8, 2}, {128, 4, 2}, {256, 2, 2}, {128, 2, 4},
    {64, 2, 8},  {32, 2, 16}, {16, 2, 32}, {8, 2, 64}, {512, 1, 2}, {16, 16, 4}, {16, 4, 16},
    {16, 8, 4},  {16, 4, 8},  {32, 8, 4},  {32, 4, 8}, {32, 4, 4},  {8, 8, 8},   {8, 16, 4},
    {8, 4, 16},  {16, 1, 2},  {16, 4, 4},  {16, 4, 2}, {16, 2, 4},  {16, 8, 2},  {16, 2, 8},
    {16, 16, 2}, {16, 2, 16}, {8, 8, 4},   {8, 4, 8},
};

// The modes are numbered in the order of the table; a 1024-bit matrix has two, lo and hi.
inline Matrix matrix_of(VShuffleMode mode, bool* high) {
  unsigned number = 0;
  for (const Matrix& matrix : kShuffleMatrices) {
    const unsigned halves = matrix.bits * matrix.rows * matrix.cols == 1024 ? 2 : 1;
    if (mode < number + halves) {
      *high = mode > number;
      return matrix;
    }
    number += halves;
  }
  fail("VSHUFFLE has no mode %u", static_cast<unsigned>(mode));
  return {512, 1, 1};
}

// Both results of a zip or an unzip: v‖w as a rows×cols matrix of chunks, transposed.
template <typename T, unsigned Elems>
std::pair<vector<T, Elems>, vector<T, Elems>> transpose_pair(const vector<T, Elems>& v,
                                                             const vector<T, Elems>& w,
                                                             unsigned chunk, bool zip) {
  constexpr unsigned kBytes = vector<T, Elems>::kBytes;
  if (chunk == 0 || (chunk & (chunk - 1)) != 0 || chunk > Elems) {
    fail("interleave by chunks of %u in vectors of %u elements", chunk, Elems);
    return {v, w};
  }
  if (chunk == Elems) return {v, w};
  uint8_t in[2 * kBytes], out[2 * kBytes];
  std::memcpy(in, v.elems, kBytes);
  std::memcpy(in + kBytes, w.elems, kBytes);
  const unsigned chunks = Elems / chunk;
  transpose_matrix(in, out, chunk * sizeof(T), zip ? 2 : chunks, zip ? chunks : 2);
  state.vshuffles += kBytes < 64 ? 1 : kBytes / 32;
  std::pair<vector<T, Elems>, vector<T, Elems>> result;
  std::memcpy(result.first.elems, out, kBytes);
  std::memcpy(result.second.elems, out + kBytes, kBytes);
  return result;
}

}  // namespace aie::host

template <typename T, unsigned Elems>
aie::vector<T, Elems> shuffle(const aie::vector<T, Elems>& a, const aie::vector<T, Elems>& b,
                              VShuffleMode mode) {
  static_assert(aie::vector<T, Elems>::kBytes == 64, "VSHUFFLE works on 512-bit vectors");
  aie::host::state.vshuffles += 1;
  bool high = false;
  const aie::host::Matrix matrix = aie::host::matrix_of(mode, &high);
  const unsigned bytes = matrix.bits * matrix.rows * matrix.cols / 8;
  uint8_t in[128], out[128];
  std::memcpy(in, a.elems, 64);
  std::memcpy(in + 64, b.elems, 64);
  if (mode == T16_1x2_flip) {  // the one mode that is no transpose: 32-bit words, halves swapped
    for (unsigned i = 0; i < 64; ++i) out[i] = in[i ^ 2];
  } else {
    for (unsigned block = 0; block < (bytes < 64 ? 64 : bytes); block += bytes) {
      aie::host::transpose_matrix(in + block, out + block, matrix.bits / 8, matrix.rows,
                                  matrix.cols);
    }
  }
  aie::vector<T, Elems> result;
  std::memcpy(result.elems, out + (high ? 64 : 0), 64);
  return result;
}

namespace aie {

// Chunks of v and w alternately: the first half of the result, then the second.
template <typename T, unsigned Elems>
std::pair<vector<T, Elems>, vector<T, Elems>> interleave_zip(const vector<T, Elems>& v,
                                                             const vector<T, Elems>& w,
                                                             unsigned chunk) {
  return host::transpose_pair(v, w, chunk, /*zip=*/true);
}

// Of v followed by w, the even chunks, then the odd ones.
template <typename T, unsigned Elems>
std::pair<vector<T, Elems>, vector<T, Elems>> interleave_unzip(const vector<T, Elems>& v,
                                                               const vector<T, Elems>& w,
                                                               unsigned chunk) {
  return host::transpose_pair(v, w, chunk, /*zip=*/false);
}

}  // namespace aie

// Scalar accesses go past load_v and store_v; kernels guard them with these.
#define AIE_MAY_READ(pointer, bytes) aie::host::check_read(pointer, bytes, bytes)
#define AIE_MAY_WRITE(pointer, bytes) aie::host::check_write(pointer, bytes, bytes)
