// The kernels for the instruction set HPTP_ISA_NOW. Included by kernels.hpp once per set.
//
// Blocks: 16 bytes of each of 16 / elem_bytes rows are a square of elements in registers; unpacking
// row i with row i + n/2, log2(n) times, transposes it (the perfect shuffle). Each lane of a wider
// vector holds another such group of rows, so what comes out are consecutive elements of one
// column.

namespace hptp {
#if HPTP_ISA_NOW == HPTP_ISA_SCALAR
namespace scalar {
constexpr Isa kIsa = Isa::scalar;
#elif HPTP_ISA_NOW == HPTP_ISA_SSE4
namespace sse4 {
constexpr Isa kIsa = Isa::sse4;
#elif HPTP_ISA_NOW == HPTP_ISA_AVX2
namespace avx2 {
constexpr Isa kIsa = Isa::avx2;
#elif HPTP_ISA_NOW == HPTP_ISA_AVX512
namespace avx512 {
constexpr Isa kIsa = Isa::avx512;
#elif HPTP_ISA_NOW == HPTP_ISA_NEON
namespace neon {
constexpr Isa kIsa = Isa::neon;
#endif

// Into the first cache, or for what is far ahead only into the second.
template <bool kFar>
HPTP_INLINE void prefetch(const uint8_t* p) {
#if defined(HPTP_X86)
  _mm_prefetch(reinterpret_cast<const char*>(p), kFar ? _MM_HINT_T1 : _MM_HINT_T0);
#elif defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(p, 0, kFar ? 2 : 3);
#else
  (void)p;
#endif
}

// move(to, from) for every element, in the order of the destination. What the loop needs is in
// variables of its own, since the compiler must assume that bytes written may be the block's.
template <typename Move>
HPTP_INLINE void move_block(const Block& block, Move move) {
  const int64_t in_pitch_bytes = block.in_pitch_bytes;
  const int64_t elem_bytes = block.elem_bytes;
  const int64_t rows = block.rows;
  const int64_t columns = block.columns;
  const uint8_t* in_column = block.in;
  uint8_t* out_column = block.out;
  const int64_t out_pitch_bytes = block.out_pitch_bytes;
  for (int64_t column = 0; column < columns; ++column) {
    const uint8_t* in = in_column;
    uint8_t* out = out_column;
    for (int64_t row = 0; row < rows; ++row) {
      move(out, in);
      in += in_pitch_bytes;
      out += elem_bytes;
    }
    in_column += elem_bytes;
    out_column += out_pitch_bytes;
  }
}

// Elements of at most kMoveBytes, moved as kMoveBytes: what a move brings too much, the next one
// overwrites.
template <int kMoveBytes>
void element_block(const Block& block) {
  move_block(block, [](uint8_t* to, const uint8_t* from) { std::memcpy(to, from, kMoveBytes); });
}

inline void long_element_block(const Block& block) {
  const size_t elem_bytes = static_cast<size_t>(block.elem_bytes);
  move_block(block, [=](uint8_t* to, const uint8_t* from) { std::memcpy(to, from, elem_bytes); });
}

#if HPTP_ISA_NOW == HPTP_ISA_SCALAR

inline void copy(uint8_t* dst, const uint8_t* src, int64_t bytes) {
  std::memcpy(dst, src, static_cast<size_t>(bytes));
}

HPTP_INLINE void copy_line(uint8_t* dst, const uint8_t* src) { std::memcpy(dst, src, kLineBytes); }

template <int kElemBytes>
QuadKernels quad_kernels() {
  return {};
}

#else

#include "simd.hpp"

constexpr int kVecBytes = 16 * kLanes;

template <bool kStreams>
HPTP_INLINE void write(uint8_t* to, Vec v) {
  if constexpr (kStreams) {
    stream(to, v);
  } else {
    store(to, v);
  }
}

HPTP_INLINE void copy_line(uint8_t* dst, const uint8_t* src) {
  HPTP_UNROLL
  for (int i = 0; i < kLineBytes; i += kVecBytes) store(dst + i, load(src + i));
}

template <int kElemBytes, size_t... i>
HPTP_INLINE void unpack_all(const Vec* in, Vec* out, std::index_sequence<i...>) {
  constexpr size_t half = sizeof...(i);
  ((out[2 * i] = unpack_lo<kElemBytes>(in[i], in[i + half]),
    out[2 * i + 1] = unpack_hi<kElemBytes>(in[i], in[i + half])),
   ...);
}

// kRounds perfect shuffles of n vectors.
template <int kElemBytes, int n, int kRounds>
HPTP_INLINE void shuffle_perfectly(Vec* v) {
  if constexpr (kRounds > 0) {
    Vec unpacked[n];
    unpack_all<kElemBytes>(v, unpacked, std::make_index_sequence<n / 2>());
    shuffle_perfectly<kElemBytes, n, kRounds - 1>(unpacked);
    HPTP_UNROLL
    for (int i = 0; i < n; ++i) v[i] = unpacked[i];
  }
}

constexpr int log2(int n) { return n == 1 ? 0 : 1 + log2(n / 2); }

// One square per lane: 16 bytes of n * kLanes rows → n columns of kVecBytes.
template <int kElemBytes, size_t... i>
HPTP_INLINE void transpose_square(const uint8_t* in, int64_t in_pitch_bytes, uint8_t* out,
                                  int64_t out_pitch_bytes, std::index_sequence<i...>) {
  constexpr int64_t n = sizeof...(i);
  Vec v[n] = {load_lanes(in + static_cast<int64_t>(i) * in_pitch_bytes, n * in_pitch_bytes)...};
  shuffle_perfectly<kElemBytes, n, log2(n)>(v);
  (store(out + static_cast<int64_t>(i) * out_pitch_bytes, v[i]), ...);
}

// A line of columns after the other, so that the columns being written stay in the first cache.
// Where columns are packed, rubbish behind one must not meet what is written of the next: the last
// squares overlap the ones before, and a lone row of squares is written in the order of its
// columns.
template <int kElemBytes>
void square_block(const Block& block) {
  constexpr int64_t n = 16 / kElemBytes;
  constexpr int64_t kRows = n * kLanes;
  const int64_t in_pitch_bytes = block.in_pitch_bytes;
  const int64_t out_pitch_bytes = block.out_pitch_bytes;
  const int64_t rows = block.rows;
  const int64_t last = std::max<int64_t>(rows - kRows, 0);
  const int64_t lines = (block.columns + 4 * n - 1) / (4 * n);
  for (int64_t line = 0; line < lines; ++line) {
    const uint8_t* const in_line = block.in + line * kLineBytes;
    uint8_t* const out_line = block.out + line * 4 * n * out_pitch_bytes;
    for (int64_t next = 0; next < rows; next += kRows) {
      const int64_t row = std::min(next, last);
      const uint8_t* in = in_line + row * in_pitch_bytes;
      uint8_t* out = out_line + row * kElemBytes;
      for (int i = 0; i < 4; ++i, in += 16, out += n * out_pitch_bytes) {
        transpose_square<kElemBytes>(in, in_pitch_bytes, out, out_pitch_bytes,
                                     std::make_index_sequence<n>());
      }
    }
  }
}

// From where rows lie to where columns go: the last squares overlap the ones before, on both sides.
template <int kElemBytes>
void put_squares(const Block& all_squares) {
  constexpr int64_t n = 16 / kElemBytes;
  constexpr int64_t kRows = n * kLanes;
  const Block block = all_squares;
  const int64_t last_row = block.rows - kRows;
  const int64_t last_column = block.columns - n;
  for (int64_t line = 0; line < block.columns; line += 4 * n) {
    const int64_t end = std::min(line + 4 * n, block.columns);
    for (int64_t next = 0; next < block.rows; next += kRows) {
      const int64_t row = std::min(next, last_row);
      const uint8_t* in = block.in + row * block.in_pitch_bytes;
      uint8_t* out = block.out + row * kElemBytes;
      for (int64_t i = line; i < end; i += n) {
        const int64_t column = std::min(i, last_column);
        transpose_square<kElemBytes>(in + column * kElemBytes, block.in_pitch_bytes,
                                     out + column * block.out_pitch_bytes, block.out_pitch_bytes,
                                     std::make_index_sequence<n>());
      }
    }
  }
}

// Whole lines past the cache; what is left at the ends shares its line with other runs and is
// stored as usual.
inline void copy(uint8_t* dst, const uint8_t* src, int64_t bytes) {
  const int64_t head = -reinterpret_cast<intptr_t>(dst) & (kLineBytes - 1);
  int64_t at = std::min(head, bytes);
  if (at != 0) std::memcpy(dst, src, static_cast<size_t>(at));
  for (; at + kLineBytes <= bytes; at += kLineBytes) {
    for (int i = 0; i < kLineBytes; i += kVecBytes) stream(dst + at + i, load(src + at + i));
  }
  if (at != bytes) std::memcpy(dst + at, src + at, static_cast<size_t>(bytes - at));
}

#include "channels-inl.hpp"
#include "quads-inl.hpp"

#endif

// Loads kSide rows side by side.
template <int64_t kSide>
void load_rows_by(const Load& load) {
  for (int64_t first = load.first_row; first < load.last_row; first += kSide) {
    const uint8_t* from[kSide];
    const uint8_t* ahead[kSide];
    uint8_t* to[kSide];
    for (int64_t k = 0; k < kSide; ++k) {
      const int64_t row = std::min(first + k, load.last_row - 1);
      const int64_t next = row + load.rows_ahead;
      from[k] = load.src + load.row_offsets[row];
      to[k] = load.out + row * load.pitch_bytes;
      ahead[k] =
          next < load.rows
              ? load.src + load.row_offsets[next]
              : load.next_src + load.row_offsets[std::min(next, 2 * load.rows - 1) - load.rows];
    }
    int64_t at = 0;
    for (; at + kLineBytes <= load.row_bytes; at += kLineBytes) {
      for (int64_t k = 0; k < kSide; ++k) {
        prefetch<true>(ahead[k] + at);
        prefetch<false>(from[k] + at + kSoonBytes);
        copy_line(to[k] + at, from[k] + at);
      }
    }
    const int64_t left = load.row_bytes - at;
    for (int64_t k = 0; k < kSide && left > 0; ++k) {
      prefetch<true>(ahead[k] + at);
      std::memcpy(to[k] + at, from[k] + at, static_cast<size_t>(left));
    }
  }
}

// Rows far apart read faster four side by side than 1, 2, 8 or 16 in most sweeps of a 2-D transpose
// on a Zen 3 guest. Adjacent ones are one stream, which four readers only disturb: loading them in
// order, with a prefetch far ahead, took NHWC to NCHW from 41 % of a copy's speed to 60 %.
inline void load_rows(const Load& load) {
  if (load.rows_adjacent) {
    load_rows_by<1>(load);
  } else {
    load_rows_by<4>(load);
  }
}

// Elements of kPieceBytes or more, a piece at a time: the last one overlaps the one before, so that
// nothing behind an element is written. Four rows side by side: what they have in one column is a
// line or more, which is then written once.
template <int kPieceBytes>
HPTP_INLINE void gather_pieces(const Gather& all_rows) {
  const Gather gather = all_rows;
  const int64_t last = gather.elem_bytes - kPieceBytes;
  for (int64_t row = 0; row < gather.rows; row += kQuadRows) {
    const int64_t side = std::min(gather.rows - row, kQuadRows);
    const uint8_t* rows[kQuadRows];
    for (int64_t k = 0; k < side; ++k) rows[k] = gather.src + gather.row_offsets[row + k];
    uint8_t* out = gather.out + row * gather.elem_bytes;
    for (int64_t offset = 0; offset < gather.columns * gather.elem_bytes;
         offset += gather.elem_bytes, out += gather.out_pitch_bytes) {
      uint8_t* to = out;
      for (int64_t k = 0; k < side; ++k, to += gather.elem_bytes) {
        const uint8_t* from = rows[k] + offset;
        for (int64_t at = 0; at < last; at += kPieceBytes) {
          std::memcpy(to + at, from + at, kPieceBytes);
        }
        std::memcpy(to + last, from + last, kPieceBytes);
      }
    }
  }
}

inline void gather_rows(const Gather& rows) {
  if (rows.elem_bytes >= 64) {
    gather_pieces<64>(rows);
  } else if (rows.elem_bytes >= 32) {
    gather_pieces<32>(rows);
  } else if (rows.elem_bytes >= 16) {
    gather_pieces<16>(rows);
  } else if (rows.elem_bytes >= 8) {
    gather_pieces<8>(rows);
  } else {
    gather_pieces<4>(rows);
  }
}

#if HPTP_ISA_NOW == HPTP_ISA_SCALAR
#define HPTP_SQUARES(size) {"elements", element_block<size>, 1, 1}
#define HPTP_DIRECT(size) {"elements", element_block<size>, 1, 1}
#define HPTP_CHANNELS(size, n) {"elements", element_block<size>, n, 1}
#define HPTP_PIXELS(size, n) {"elements", element_block<size>, 1, n}
#else
#define HPTP_SQUARES(size) {"squares", square_block<size>, 1, 1}
#define HPTP_DIRECT(size) \
  {"direct", square_block<size>, 16 / size * kLanes, 16 / size, put_squares<size>}
#define HPTP_CHANNELS(size, n) \
  {"interleave", interleave_block<size, n>, n, kVecBytes / size, stream_interleave_block<size, n>}
#define HPTP_PIXELS(size, n)                                         \
  {"deinterleave", deinterleave_block<size, n>, kVecBytes / size, n, \
   stream_deinterleave_block<size, n>}
#endif
#define HPTP_EACH_CHANNELS(entry, size) {entry(size, 2), entry(size, 3), entry(size, 4)}

inline const KernelSet& kernels() {
  static const KernelSet set = {
      kIsa,
      {HPTP_SQUARES(1), HPTP_SQUARES(2), HPTP_SQUARES(4), HPTP_SQUARES(8), HPTP_SQUARES(16)},
      {HPTP_DIRECT(1), HPTP_DIRECT(2), HPTP_DIRECT(4), HPTP_DIRECT(8), HPTP_DIRECT(16)},
      {{"elements", element_block<4>, 1, 1},
       {"elements", element_block<8>, 1, 1},
       {"elements", element_block<16>, 1, 1},
       {"elements", long_element_block, 1, 1}},
      {HPTP_EACH_CHANNELS(HPTP_CHANNELS, 1), HPTP_EACH_CHANNELS(HPTP_CHANNELS, 2),
       HPTP_EACH_CHANNELS(HPTP_CHANNELS, 4)},
      {HPTP_EACH_CHANNELS(HPTP_PIXELS, 1), HPTP_EACH_CHANNELS(HPTP_PIXELS, 2),
       HPTP_EACH_CHANNELS(HPTP_PIXELS, 4)},
      {quad_kernels<1>(), quad_kernels<2>(), quad_kernels<3>(), quad_kernels<4>(),
       quad_kernels<6>(), quad_kernels<8>(), quad_kernels<12>(), quad_kernels<16>()},
      load_rows,
      gather_rows,
      copy,
  };
  return set;
}

#undef HPTP_SQUARES
#undef HPTP_DIRECT
#undef HPTP_CHANNELS
#undef HPTP_PIXELS
#undef HPTP_EACH_CHANNELS

}  // namespace
}  // namespace hptp
