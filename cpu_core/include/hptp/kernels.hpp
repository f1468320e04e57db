// The kernels: what runs inside one tile, once per instruction set.
//
// A tile is the cross product of `rows`, places in the source, and `columns`, consecutive elements
// of each of these places. load brings its rows into a buffer, a transpose turns them, some columns
// at a time, into a second buffer, and stream writes that one out. What a row or a column means in
// the problem (one axis, several, a part of one) is the plan's business, which is why one kernel
// per element size serves 2-D matrices, images and 22-axis reversals alike. And since both sides of
// a transpose are buffers, with room for rubbish behind every row, no kernel has edges to treat.
//
// Two ways are shorter. Large tensors go by way of quads: half the work of a transpose is done as
// rows are loaded, the other half as columns are written, and there is one buffer. And channels are
// interleaved, or taken apart, and squares of what is in the cache transposed, between the tensors
// themselves.
//
// kernels-inl.hpp is included below once for every instruction set, each time in a namespace of its
// own and with code generation for that set turned on, so users of the headers alone get all of
// them. Only kernel_set() leaves those namespaces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "isa.hpp"

#if defined(HPTP_X86)
#include <immintrin.h>
#elif defined(HPTP_NEON)
#include <arm_neon.h>
#endif

#if defined(_MSC_VER)
#define HPTP_INLINE __forceinline
#else
#define HPTP_INLINE inline __attribute__((always_inline))
#endif

namespace hptp {

constexpr int64_t kLineBytes = 64;

// Kernels may read, and fill with rubbish, this much behind the data of a buffer, and work on this
// many rows or columns where there are fewer.
constexpr int64_t kSlackBytes = 128;
constexpr int64_t kSlackRows = 64;

// Two prefetches serve better than either: of other rows, into the second cache, long before they
// are read, and of these, into the first, just before. A 2-D transpose gains a tenth by the latter.
constexpr int64_t kSoonBytes = 256;

// Some rows of a tile → a buffer.
struct Load {
  const uint8_t* src;
  const int64_t* row_offsets;  // bytes from src, one per row of the tile
  int64_t rows;
  int64_t row_bytes;
  int64_t first_row;  // of those to load now
  int64_t last_row;
  bool rows_adjacent;       // each row begins where the one before ends
  int64_t rows_ahead;       // each line loaded prefetches that of the row so many further on
  const uint8_t* next_src;  // the tile where it goes on
  uint8_t* out;
  int64_t pitch_bytes;
};

// Element (row, column) at in + row * in_pitch + column * elem → out + column * out_pitch + row *
// elem.
struct Block {
  const uint8_t* in;
  int64_t in_pitch_bytes;
  uint8_t* out;
  int64_t out_pitch_bytes;
  int64_t rows;
  int64_t columns;
  int64_t elem_bytes;
};

// Long elements of some rows → a buffer, the rows of each column one after the other.
struct Gather {
  const uint8_t* src;
  const int64_t* row_offsets;  // bytes from src, one per row
  int64_t rows;
  int64_t columns;
  int64_t elem_bytes;  // at least 4
  uint8_t* out;
  int64_t out_pitch_bytes;  // from one column to the next
};

// A quad is what four rows have in one column. Rows of elements are rows of quads after half the
// work of a transpose, done while they are loaded: what is left to do is to gather the quads of a
// column, which are whole vectors.
constexpr int64_t kQuadRows = 4;

// Four rows, side by side → their quads, one column after the other.
struct QuadRows {
  const uint8_t* from[kQuadRows];
  const uint8_t* ahead[kQuadRows];  // what is prefetched meanwhile: a line of each
  int64_t ahead_stride;             // lines from one to the next
  int64_t last_soon;                // what is prefetched of the rows themselves goes so far
  int64_t at;                       // bytes of each row that have been loaded
  uint8_t* out;
};

// Columns of quads → the destination, past the cache.
struct QuadColumns {
  const uint8_t* quads;  // of the first four rows and the first column
  int64_t pitch_bytes;   // to those of the next four rows
  uint8_t* dst;
  const int64_t* dst_offsets;  // bytes, one per column
  int64_t num_columns;
  int64_t column_bytes;  // at most kMaxQuadColumnBytes
};

// Columns of quads that begin anywhere in a line: those of a tile that continues one above it. What
// is written of each begins and ends with a line, so it begins with some of the rows above.
struct QuadWindows {
  const uint8_t* quads;  // of the first four rows and the first column
  int64_t pitch_bytes;   // to those of the next four rows
  uint8_t* lines;        // a line for each column: the end of the tile above, then of this one
  uint8_t* dst;          // of the tile's own first row
  const int64_t* dst_offsets;
  int64_t num_columns;
  int64_t column_bytes;  // of the tile
  bool first;            // nothing is above it, or another thread's
  bool last;             // or below
};

using LoadKernel = void (*)(const Load&);
using BlockKernel = void (*)(const Block&);
using CopyKernel = void (*)(uint8_t* dst, const uint8_t* src, int64_t bytes);

constexpr int64_t kMaxQuadColumnBytes = 18 * kLineBytes;

// exchange loads and writes in turns: a step of each of four rows, as many bytes of columns. Those
// begin with a line and are whole steps.
struct QuadKernels {
  int64_t elem_bytes;
  int64_t row_step_bytes;
  int64_t columns_at_once;  // exchange takes multiples of it: so many have whole steps together
  int64_t step_bytes() const { return kQuadRows * row_step_bytes / columns_at_once; }
  void (*load)(const QuadRows&, int64_t row_bytes);
  void (*write)(const QuadColumns&);
  void (*exchange)(const QuadColumns&, const QuadRows&);
  void (*write_windows)(const QuadWindows&);  // null: elements of 3, 6 or 12 bytes
  void (*exchange_windows)(const QuadWindows&, const QuadRows&);
};

struct Kernel {
  const char* name;
  BlockKernel run;
  int64_t min_rows;  // of a block
  int64_t min_columns;
  // The same, without rubbish: or null. Squares go through the cache. Channels go past it, where
  // some element of out begins with a line and columns, unless they are packed, lie whole lines
  // apart.
  BlockKernel put = nullptr;
};

constexpr int kMaxChannels = 4;
constexpr int kNumQuadSizes = 8;

// The kernels of one instruction set.
struct KernelSet {
  Isa isa;
  Kernel block[5];    // elements of 1, 2, 4, 8 and 16 bytes
  Kernel direct[5];   // the same, for what is put where it goes; null in the scalar set
  Kernel element[4];  // elements of up to 4, 8 and 16 bytes; longer ones
  // Elements of 1, 2, 4 bytes in 2, 3, 4 channels: [log2 of the size][channels - 2].
  Kernel interleave[3][kMaxChannels - 1];    // rows are the channels, columns leave packed
  Kernel deinterleave[3][kMaxChannels - 1];  // columns are the channels, rows come packed
  QuadKernels quads[kNumQuadSizes];          // none in the scalar set
  LoadKernel load;
  void (*gather)(const Gather&);
  CopyKernel
      stream;  // past the cache, as whole lines; ordinary stores for what is left at the ends
};

namespace detail {

// What a shuffle kernel's output vector takes from one of its input vectors, as pshufb wants it.
struct ShuffleMasks {
  uint8_t byte[kMaxChannels][kMaxChannels][16];  // [output vector][input vector][byte]
};

// Channels in vectors of their own → pixels: byte b of output vector v is byte 16 v + b of the
// pixels.
constexpr ShuffleMasks interleave_masks(int channels, int elem_bytes) {
  ShuffleMasks masks{};
  for (int out = 0; out < channels; ++out) {
    for (int in = 0; in < channels; ++in) {
      for (int b = 0; b < 16; ++b) {
        const int at = 16 * out + b;
        const int pixel = at / (channels * elem_bytes);
        const int channel = at / elem_bytes % channels;
        const int source = pixel * elem_bytes + at % elem_bytes;
        masks.byte[out][in][b] = static_cast<uint8_t>(channel == in ? source : 0x80);
      }
    }
  }
  return masks;
}

// The inverse: byte b of a channel is found in the pixels.
constexpr ShuffleMasks deinterleave_masks(int channels, int elem_bytes) {
  ShuffleMasks masks{};
  for (int out = 0; out < channels; ++out) {
    for (int in = 0; in < channels; ++in) {
      for (int b = 0; b < 16; ++b) {
        const int at = (b / elem_bytes * channels + out) * elem_bytes + b % elem_bytes;
        masks.byte[out][in][b] = static_cast<uint8_t>(at / 16 == in ? at % 16 : 0x80);
      }
    }
  }
  return masks;
}

template <int kChannels, int kElemBytes>
struct Masks {
  static constexpr ShuffleMasks interleave = interleave_masks(kChannels, kElemBytes);
  static constexpr ShuffleMasks deinterleave = deinterleave_masks(kChannels, kElemBytes);
};

}  // namespace detail
}  // namespace hptp

// Code between HPTP_BEGIN_TARGET and HPTP_END_TARGET is generated for that instruction set.
#define HPTP_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define HPTP_BEGIN_TARGET(set) \
  HPTP_PRAGMA(clang attribute push(__attribute__((target(set))), apply_to = function))
#define HPTP_END_TARGET _Pragma("clang attribute pop")
#elif defined(__GNUC__)
#define HPTP_BEGIN_TARGET(set) _Pragma("GCC push_options") HPTP_PRAGMA(GCC target(set))
#define HPTP_END_TARGET _Pragma("GCC pop_options")
#else
#define HPTP_BEGIN_TARGET(set)
#define HPTP_END_TARGET
#endif

// Before a loop over vectors: they stay in registers only where it is unrolled, which -O2 does not.
#if defined(__clang__)
#define HPTP_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define HPTP_UNROLL _Pragma("GCC unroll 16")
#else
#define HPTP_UNROLL
#endif

#define HPTP_ISA_SCALAR 0
#define HPTP_ISA_SSE4 1
#define HPTP_ISA_AVX2 2
#define HPTP_ISA_AVX512 3
#define HPTP_ISA_NEON 4

#define HPTP_ISA_NOW HPTP_ISA_SCALAR
#include "kernels-inl.hpp"
#undef HPTP_ISA_NOW

#if defined(HPTP_X86)

HPTP_BEGIN_TARGET("ssse3,sse4.1")
#define HPTP_ISA_NOW HPTP_ISA_SSE4
#include "kernels-inl.hpp"
#undef HPTP_ISA_NOW
HPTP_END_TARGET

HPTP_BEGIN_TARGET("avx2")
#define HPTP_ISA_NOW HPTP_ISA_AVX2
#include "kernels-inl.hpp"
#undef HPTP_ISA_NOW
HPTP_END_TARGET

HPTP_BEGIN_TARGET("avx512f,avx512bw")
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC bug 105593, in avx512fintrin.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define HPTP_ISA_NOW HPTP_ISA_AVX512
#include "kernels-inl.hpp"
#undef HPTP_ISA_NOW
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
HPTP_END_TARGET

#elif defined(HPTP_NEON)

#define HPTP_ISA_NOW HPTP_ISA_NEON
#include "kernels-inl.hpp"
#undef HPTP_ISA_NOW

#endif

namespace hptp {

// Makes what this thread has written past the cache visible to others before what it writes next.
inline void fence_streams() {
#if defined(HPTP_X86)
  _mm_sfence();
#endif
}

// The kernels of a set that is_available().
inline const KernelSet& kernel_set(Isa isa) {
#if defined(HPTP_X86)
  if (isa == Isa::sse4) return sse4::kernels();
  if (isa == Isa::avx2) return avx2::kernels();
  if (isa == Isa::avx512) return avx512::kernels();
#elif defined(HPTP_NEON)
  if (isa == Isa::neon) return neon::kernels();
#endif
  (void)isa;
  return scalar::kernels();
}

// Of the sets a CPU that has this one also has, the next one, whose kernels take fewer rows.
inline const KernelSet& narrower(const KernelSet& set) {
  return kernel_set(set.isa == Isa::avx512 ? Isa::avx2
                    : set.isa == Isa::avx2 ? Isa::sse4
                                           : Isa::scalar);
}

}  // namespace hptp
