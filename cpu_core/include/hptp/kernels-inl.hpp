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

// Two prefetches serve better than either: of other rows, into the second cache, long before they
// are read, and of these, into the first, just before. A 2-D transpose gains a tenth by the latter.
constexpr int64_t kSoonBytes = 256;

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

template <int kElemBytes>
constexpr bool kIsPowerOfTwo = (kElemBytes & (kElemBytes - 1)) == 0;

// What is loaded of a row at a time: four rows of it are whole lines.
template <int kElemBytes>
constexpr int64_t kRowStepBytes = kIsPowerOfTwo<kElemBytes> ? kLineBytes : 48;

// Vectors of four rows → quads. Elements of 16 bytes are quads as they lie.
template <int kElemBytes>
HPTP_INLINE void shuffle_quads(const uint8_t* const* rows, int64_t at, uint8_t* out) {
  HPTP_UNROLL
  for (int i = 0; i < kLineBytes; i += kVecBytes, out += kQuadRows * kVecBytes) {
    Vec v[kQuadRows] = {load(rows[0] + at + i), load(rows[1] + at + i), load(rows[2] + at + i),
                        load(rows[3] + at + i)};
    shuffle_perfectly<kElemBytes, kQuadRows, kElemBytes == 16 ? 0 : log2(kQuadRows)>(v);
    HPTP_UNROLL
    for (int k = 0; k < kQuadRows; ++k) store_lanes(out + 16 * k, 16 * kQuadRows, v[k]);
  }
}

// Four groups of 12 bytes, of which the last one is read with the bytes before it: the source may
// end behind it.
alignas(64) constexpr uint8_t kGroupMasks[64] = {
    0, 1, 2, 3, 4, 5, 6,  7,  8,  9,  10, 11, 12,  13,  14,  15,  //
    0, 1, 2, 3, 4, 5, 6,  7,  8,  9,  10, 11, 12,  13,  14,  15,  //
    0, 1, 2, 3, 4, 5, 6,  7,  8,  9,  10, 11, 12,  13,  14,  15,  //
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 128, 128, 128, 128};

// Groups [group, group + kLanes), one in each lane.
HPTP_INLINE Vec load_groups(const uint8_t* from, int group) {
  const uint8_t* const groups[4] = {from, from + 12, from + 24, from + 32};
  const Vec v = load_pieces(groups + group, 0);
  return group + kLanes < 4 ? v : shuffle(v, load(kGroupMasks + 64 - kVecBytes));
}

// Elements of 3, 6 and 12 bytes: the quads of 12 bytes of each row are three lanes, each of which
// takes elements of two to four rows.
template <int kElemBytes>
HPTP_INLINE void interleave_quads(const uint8_t* const* rows, int64_t at, uint8_t* out) {
  constexpr const detail::ShuffleMasks& masks = detail::Masks<kQuadRows, kElemBytes>::interleave;
  HPTP_UNROLL
  for (int group = 0; group < 4; group += kLanes, out += 48 * kLanes) {
    Vec in[kQuadRows];
    HPTP_UNROLL
    for (int k = 0; k < kQuadRows; ++k) in[k] = load_groups(rows[k] + at, group);
    HPTP_UNROLL
    for (int i = 0; i < 3; ++i) {
      const int first = 16 * i / kElemBytes;
      const int last = std::min<int>((16 * i + 15) / kElemBytes, first + kQuadRows - 1);
      Vec v = shuffle(in[first % kQuadRows], broadcast(masks.byte[i][first % kQuadRows]));
      HPTP_UNROLL
      for (int k = first + 1; k <= last; ++k) {
        v = either(v, shuffle(in[k % kQuadRows], broadcast(masks.byte[i][k % kQuadRows])));
      }
      store_lanes(out + 16 * i, 48, v);
    }
  }
}

// Elements of 3, 6 and 12 bytes gain nothing by the second prefetch.
template <int kElemBytes>
HPTP_INLINE void load_quad_step(const QuadRows& rows, int64_t at) {
  HPTP_UNROLL
  for (int k = 0; k < kQuadRows; ++k) {
    prefetch<true>(rows.ahead[k] + at * rows.ahead_stride);
    if (kIsPowerOfTwo<kElemBytes>) prefetch<false>(rows.from[k] + at + kSoonBytes);
  }
  if constexpr (kIsPowerOfTwo<kElemBytes>) {
    shuffle_quads<kElemBytes>(rows.from, at, rows.out + kQuadRows * at);
  } else {
    interleave_quads<kElemBytes>(rows.from, at, rows.out + kQuadRows * at);
  }
}

template <int kElemBytes>
void load_quads(const QuadRows& rows, int64_t row_bytes) {
  constexpr int64_t kStep = kRowStepBytes<kElemBytes>;
  int64_t at = rows.at;
  for (; at + kStep <= row_bytes; at += kStep) load_quad_step<kElemBytes>(rows, at);
  if (at == row_bytes) return;
  uint8_t ends[kQuadRows][kStep];  // the source may end where the rows do
  QuadRows last = rows;
  for (int k = 0; k < kQuadRows; ++k) {
    std::memcpy(ends[k], rows.from[k] + at, static_cast<size_t>(row_bytes - at));
    last.from[k] = ends[k];
  }
  last.out += kQuadRows * at;
  load_quad_step<kElemBytes>(last, 0);
}

// A vector of quads that lie pitch_bytes apart, or of a part of one.
template <int kQuadBytes>
HPTP_INLINE Vec gather_quads(const uint8_t* from, int64_t pitch_bytes) {
  if constexpr (kQuadBytes >= kVecBytes) {
    return load(from);
  } else if constexpr (kQuadBytes == 16) {
    return load_lanes(from, pitch_bytes);
  } else {
#if HPTP_ISA_NOW == HPTP_ISA_AVX512
    return load_halves(from, pitch_bytes);
#endif
  }
}

// Whole lines of a column: put(to, vector) for each vector. Each column prefetches its share of the
// lines that hold the quads of later ones.
template <int kQuadBytes, typename Put>
HPTP_INLINE void put_column(const uint8_t* from, int64_t pitch_bytes, int64_t column, uint8_t* to,
                            int64_t bytes, Put put) {
  constexpr int kQuadsPerLine = kLineBytes / kQuadBytes;
  const uint8_t* next = from + column % kQuadsPerLine * pitch_bytes + kLineBytes;
  for (int64_t at = 0; at < bytes; at += kLineBytes) {
    if (kQuadsPerLine > 1) prefetch<false>(next);
    HPTP_UNROLL
    for (int i = 0; i < kLineBytes; i += kVecBytes) {
      const uint8_t* quad = from + i / kQuadBytes * pitch_bytes + i % kQuadBytes;
      put(to + at + i, gather_quads<kQuadBytes>(quad, pitch_bytes));
    }
    from += kQuadsPerLine * pitch_bytes;
    next += kQuadsPerLine * pitch_bytes;
  }
}

// Whole lines of a column → the first cache.
template <int kElemBytes>
HPTP_INLINE void hold_column(const QuadColumns& columns, int64_t column, uint8_t* held) {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  const uint8_t* from = columns.quads + column * kQuadBytes;
  if constexpr (kIsPowerOfTwo<kElemBytes> && kQuadBytes >= 16) {
    put_column<kQuadBytes>(from, columns.pitch_bytes, column, held, columns.column_bytes,
                           [](uint8_t* to, Vec v) { store(to, v); });
  } else {
    for (int64_t at = 0; at < columns.column_bytes; at += kQuadBytes) {
      std::memcpy(held + at, from, kQuadBytes);
      from += columns.pitch_bytes;
    }
  }
}
constexpr int64_t kHeldBytes = kMaxQuadColumnBytes + 2 * kLineBytes;

// A step of rows, a step of a column: the processor waits for memory to be read and to be written
// at the same time. In turns of four steps it does not, and a 2-D transpose is a fifth slower.
template <int kElemBytes>
void exchange_quads(const QuadColumns& all_columns, const QuadRows& all_rows) {
  constexpr int64_t kStep = kQuadRows * kRowStepBytes<kElemBytes>;
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  const QuadColumns columns = all_columns;
  const QuadRows rows = all_rows;
  const uint8_t* quads = columns.quads;
  int64_t at = rows.at;
  for (int64_t column = 0; column < columns.num_columns; ++column, quads += kQuadBytes) {
    uint8_t* dst = columns.dst + columns.dst_offsets[column];
    const uint8_t* from = quads;
    for (int64_t left = columns.column_bytes; left > 0; left -= kStep) {
      load_quad_step<kElemBytes>(rows, at);
      at += kRowStepBytes<kElemBytes>;
      put_column<kQuadBytes>(from, columns.pitch_bytes, column, dst, kStep,
                             [](uint8_t* to, Vec v) { stream(to, v); });
      from += kStep / kQuadBytes * columns.pitch_bytes;
      dst += kStep;
    }
  }
}

// A step of rows with every fourth line that is written.
template <int kElemBytes>
HPTP_INLINE void load_with_line(const QuadRows& rows, int64_t* at, int64_t* written) {
  if (*written % (kQuadRows * kRowStepBytes<kElemBytes>) == 0) {
    load_quad_step<kElemBytes>(rows, *at);
    *at += kRowStepBytes<kElemBytes>;
  }
  *written += kLineBytes;
}

// The same for quads smaller than a lane: as many columns at a time as a lane holds quads of are
// transposed in registers. One of them leaves, the others are held in the first cache meanwhile:
// leaving side by side, they are written slower (45 instead of 55 % of a copy's speed).
template <int kElemBytes>
void exchange_small_quads(const QuadColumns& all_columns, const QuadRows& all_rows) {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  constexpr int n = 16 / kQuadBytes;
  constexpr int kLineQuads = kLineBytes / kQuadBytes;  // of a column
  const QuadColumns columns = all_columns;
  const QuadRows rows = all_rows;
  const int64_t pitch_bytes = columns.pitch_bytes;
  alignas(64) uint8_t held[n][kHeldBytes];
  int64_t at = rows.at;
  int64_t written = 0;
  for (int64_t column = 0; column < columns.num_columns; column += n) {
    const uint8_t* from = columns.quads + column * kQuadBytes;
    const uint8_t* next = from + column / n % 4 * pitch_bytes + kLineBytes;
    uint8_t* dst = columns.dst + columns.dst_offsets[column];
    for (int64_t i = 0; i < columns.column_bytes; i += kLineBytes) {
      load_with_line<kElemBytes>(rows, &at, &written);
      HPTP_UNROLL
      for (int k = 0; k < kLineQuads; k += 4, next += 4 * pitch_bytes) prefetch<false>(next);
      HPTP_UNROLL
      for (int64_t k = i; k < i + kLineBytes; k += kVecBytes, from += kLanes * n * pitch_bytes) {
        Vec v[n];
        HPTP_UNROLL
        for (int j = 0; j < n; ++j) v[j] = load_lanes(from + j * pitch_bytes, n * pitch_bytes);
        shuffle_perfectly<kQuadBytes, n, log2(n)>(v);
        stream(dst + k, v[0]);
        HPTP_UNROLL
        for (int j = 1; j < n; ++j) store(held[j] + k, v[j]);
      }
    }
    for (int j = 1; j < n; ++j) {
      dst = columns.dst + columns.dst_offsets[column + j];
      for (int64_t i = 0; i < columns.column_bytes; i += kLineBytes) {
        load_with_line<kElemBytes>(rows, &at, &written);
        HPTP_UNROLL
        for (int64_t k = i; k < i + kLineBytes; k += kVecBytes) {
          stream(dst + k, load(held[j] + k));
        }
      }
    }
  }
}

// Bytes i, i + 1, … of a vector and the one behind it are the first one shuffled by
// kShiftMasks + 16 + i and the second by kShiftMasks + i.
alignas(64) constexpr uint8_t kShiftMasks[48] = {
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};

// Where in the pieces of a column, which begin a line above the tile, its first line begins.
HPTP_INLINE int64_t window_begin(const uint8_t* dst) {
  return kLineBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) & (kLineBytes - 1));
}

// The same for columns that begin anywhere in a line.
template <int kElemBytes>
void exchange_quad_windows(const QuadWindows& all_windows, const QuadRows& all_rows) {
  constexpr int64_t kStep = kQuadRows * kRowStepBytes<kElemBytes>;
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  constexpr int kQuadsPerLine = kLineBytes / kQuadBytes;
  const QuadWindows windows = all_windows;
  const QuadRows rows = all_rows;
  int64_t at = rows.at;
  for (int64_t i = 0; i < windows.num_columns; ++i) {
    const int64_t column = windows.first_column + i;
    const int64_t quad = column * kQuadBytes;
    uint8_t* dst = windows.dst + windows.dst_offsets[column];
    const int64_t begin = window_begin(dst);
    dst += begin - kLineBytes;
    const uint8_t* const* pieces = windows.pieces + begin / 16;
    const uint8_t* const* next = pieces + column % kQuadsPerLine * (4 / kQuadsPerLine);
    const Vec lower = broadcast(kShiftMasks + 16 + begin % 16);
    const Vec upper = broadcast(kShiftMasks + begin % 16);
    Vec v = load_pieces(pieces, quad);
    for (int64_t left = windows.column_bytes; left > 0; left -= kStep) {
      load_quad_step<kElemBytes>(rows, at);
      at += kRowStepBytes<kElemBytes>;
      for (int64_t line = 0; line < kStep; line += kLineBytes, next += 4) {
        if (kQuadsPerLine > 1) prefetch<false>(next[0] + quad + kLineBytes);
        HPTP_UNROLL
        for (int k = 0; k < kLineBytes; k += kVecBytes, dst += kVecBytes) {
          pieces += kLanes;
          const Vec after = load_pieces(pieces, quad);
          stream(dst, either(shuffle(v, lower), shuffle(next_lanes(v, after), upper)));
          v = after;
        }
      }
    }
  }
}

// So many columns of small quads → the first cache, from a line of rows above the tile on.
template <int kElemBytes, int n>
HPTP_INLINE void hold_windows(const QuadWindows& windows, int64_t column,
                              uint8_t (*held)[kHeldBytes]) {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  constexpr int kLinePieces = kLineBytes / kQuadBytes;
  const int64_t quad = column * kQuadBytes;
  const uint8_t* const* pieces = windows.pieces;
  const uint8_t* const* next = pieces + column / n % 4;
  for (int64_t i = 0; i < kLineBytes + windows.column_bytes; i += kLineBytes) {
    HPTP_UNROLL
    for (int k = 0; k < kLinePieces; k += 4, next += 4) prefetch<false>(*next + quad + kLineBytes);
    HPTP_UNROLL
    for (int k = 0; k < kLineBytes; k += kVecBytes, pieces += n * kLanes) {
      Vec v[n];
      HPTP_UNROLL
      for (int j = 0; j < n; ++j) {
        const uint8_t* lanes[kLanes];
        HPTP_UNROLL
        for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = pieces[lane * n + j];
        v[j] = load_pieces(lanes, quad);
      }
      shuffle_perfectly<kQuadBytes, n, log2(n)>(v);
      HPTP_UNROLL
      for (int j = 0; j < n; ++j) store(held[j] + i + k, v[j]);
    }
  }
}

// The same for quads smaller than a lane. The next columns are put together before these leave, for
// them to have left the store buffer when they are read from where their windows begin.
template <int kElemBytes>
void exchange_small_windows(const QuadWindows& all_windows, const QuadRows& all_rows) {
  constexpr int n = 16 / (kQuadRows * kElemBytes);
  const QuadWindows windows = all_windows;
  const QuadRows rows = all_rows;
  const int64_t end = windows.first_column + windows.num_columns;
  alignas(64) uint8_t held[2][n][kHeldBytes];
  int64_t at = rows.at;
  int64_t written = 0;
  int now = 0;
  hold_windows<kElemBytes, n>(windows, windows.first_column, held[now]);
  for (int64_t column = windows.first_column; column < end; column += n, now ^= 1) {
    if (column + n < end) hold_windows<kElemBytes, n>(windows, column + n, held[now ^ 1]);
    for (int j = 0; j < n; ++j) {
      uint8_t* dst = windows.dst + windows.dst_offsets[column + j];
      const int64_t begin = window_begin(dst);
      const uint8_t* from = held[now][j] + begin;
      dst += begin - kLineBytes;
      for (int64_t i = 0; i < windows.column_bytes; i += kLineBytes) {
        load_with_line<kElemBytes>(rows, &at, &written);
        HPTP_UNROLL
        for (int64_t k = i; k < i + kLineBytes; k += kVecBytes) stream(dst + k, load(from + k));
      }
    }
  }
}

// The same for elements whose quads are no vectors: a column is put together in the first cache,
// two columns ahead, for its pieces to have left the store buffer when it is read as lines.
template <int kElemBytes>
void exchange_held_quads(const QuadColumns& all_columns, const QuadRows& all_rows) {
  constexpr int64_t kStep = kQuadRows * kRowStepBytes<kElemBytes>;
  constexpr int64_t kAhead = 2;
  const QuadColumns columns = all_columns;
  const QuadRows rows = all_rows;
  alignas(64) uint8_t held[2 * kAhead][kHeldBytes];
  int64_t at = rows.at;
  for (int64_t next = 0; next < columns.num_columns + kAhead; ++next) {
    if (next < columns.num_columns) {
      hold_column<kElemBytes>(columns, next, held[next % (2 * kAhead)]);
    }
    const int64_t column = next - kAhead;
    if (column < 0) continue;
    uint8_t* dst = columns.dst + columns.dst_offsets[column];
    const uint8_t* from = held[column % (2 * kAhead)];
    for (int64_t i = 0; i < columns.column_bytes; i += kStep) {
      load_quad_step<kElemBytes>(rows, at);
      at += kRowStepBytes<kElemBytes>;
      HPTP_UNROLL
      for (int64_t k = i; k < i + kStep; k += kVecBytes) stream(dst + k, load(from + k));
    }
  }
}

// n vectors, one per channel or n of pixels, → n vectors of the other kind. Lane l of them lies
// lane_bytes further on than lane 0.
template <int n>
HPTP_INLINE void shuffle_group(const Vec* in, Vec* out, const detail::ShuffleMasks& masks) {
  HPTP_UNROLL
  for (int o = 0; o < n; ++o) {
    out[o] = shuffle(in[0], broadcast(masks.byte[o][0]));
    HPTP_UNROLL
    for (int i = 1; i < n; ++i)
      out[o] = either(out[o], shuffle(in[i], broadcast(masks.byte[o][i])));
  }
}

// How many elements (pixels) from here on one begins with a line: one of the next 64 must.
HPTP_INLINE int64_t elems_before_line(const uint8_t* p, int64_t elem_bytes) {
  int64_t elems = 0;
  while (reinterpret_cast<uintptr_t>(p + elems * elem_bytes) % kLineBytes != 0) ++elems;
  return elems;
}

// How far ahead each channel is prefetched, by which these gain a fifth.
constexpr int64_t kChannelAheadBytes = 2048;

// A vector of each channel → n of pixels.
template <int kElemBytes, int n, bool kStreams>
HPTP_INLINE void interleave_pixels(const Block& block, int64_t column, uint8_t* to) {
  Vec in[n];
  Vec out[n];
  HPTP_UNROLL
  for (int i = 0; i < n; ++i) {
    const uint8_t* from = block.in + i * block.in_pitch_bytes + column * kElemBytes;
    prefetch<true>(from + kChannelAheadBytes);
    in[i] = load(from);
  }
  shuffle_group<n>(in, out, detail::Masks<n, kElemBytes>::interleave);
  sort_chunks(out, std::make_index_sequence<n>());
  HPTP_UNROLL
  for (int i = 0; i < n; ++i) write<kStreams>(to + i * kVecBytes, out[i]);
}

// These read the source itself, so they stay within it: the last group of pixels overlaps the one
// before, and there must be one.
template <int kElemBytes, int n>
void interleave_block(const Block& block) {
  constexpr int64_t kPixels = kVecBytes / kElemBytes;
  for (int64_t next = 0; next < block.columns; next += kPixels) {
    const int64_t column = std::min(next, block.columns - kPixels);
    interleave_pixels<kElemBytes, n, false>(block, column, block.out + column * n * kElemBytes);
  }
}

// Whole lines past the cache, from registers: images in the last level went from 65-90 to 100 % of
// a copy's speed. The pixels before the first line and those behind the last are stored as usual,
// and no others: a line that is half stored and then written past the cache takes a detour. The
// line that this block ends in, and the next one begins in, is fetched in time for both.
template <int kElemBytes, int n>
void stream_interleave_block(const Block& all_pixels) {
  constexpr int64_t kPixelBytes = n * kElemBytes;
  constexpr int64_t kLinePixels = kLineBytes / kElemBytes;
  constexpr int64_t kPixels = kVecBytes / kElemBytes;
  const Block block = all_pixels;
  const auto store_pixels = [&](int64_t begin, int64_t end) {
    alignas(64) uint8_t held[n * kVecBytes];
    for (int64_t column = begin; column < end; column += kPixels) {
      const int64_t first = std::min(column, block.columns - kPixels);
      interleave_pixels<kElemBytes, n, false>(block, first, held);
      std::memcpy(block.out + column * kPixelBytes, held + (column - first) * kPixelBytes,
                  static_cast<size_t>(std::min(kPixels, end - column) * kPixelBytes));
    }
  };
  prefetch<false>(block.out + block.columns * kPixelBytes);
  int64_t column = std::min(elems_before_line(block.out, kPixelBytes), block.columns);
  store_pixels(0, column);
  for (; column + kLinePixels <= block.columns; column += kLinePixels) {
    uint8_t* to = block.out + column * kPixelBytes;
    HPTP_UNROLL
    for (int i = 0; i < kLinePixels; i += kPixels, to += n * kVecBytes) {
      interleave_pixels<kElemBytes, n, true>(block, column + i, to);
    }
  }
  store_pixels(column, block.columns);
}

// kVecs vectors of pixels → as many of each channel.
template <int kElemBytes, int n, int kVecs, bool kStreams>
HPTP_INLINE void deinterleave_pixels(const Block& block, int64_t row, uint8_t* out_row,
                                     int64_t out_pitch_bytes) {
  const uint8_t* from = block.in + row * n * kElemBytes;
  Vec in[n];
  Vec out[kVecs][n];
  HPTP_UNROLL
  for (int k = 0; k < kVecs; ++k, from += n * kVecBytes) {
    HPTP_UNROLL
    for (int i = 0; i < n; ++i) in[i] = load_lanes(from + 16 * i, 16 * n);
    shuffle_group<n>(in, out[k], detail::Masks<n, kElemBytes>::deinterleave);
  }
  HPTP_UNROLL
  for (int i = 0; i < n; ++i) {
    uint8_t* to = out_row + i * out_pitch_bytes;
    HPTP_UNROLL
    for (int k = 0; k < kVecs; ++k, to += kVecBytes) write<kStreams>(to, out[k][i]);
  }
}

template <int kElemBytes, int n>
void deinterleave_block(const Block& block) {
  constexpr int64_t kPixels = kVecBytes / kElemBytes;
  for (int64_t next = 0; next < block.rows; next += kPixels) {
    const int64_t row = std::min(next, block.rows - kPixels);
    deinterleave_pixels<kElemBytes, n, 1, false>(block, row, block.out + row * kElemBytes,
                                                 block.out_pitch_bytes);
  }
}

// A line of each channel at a time; the channels begin equally far behind one.
template <int kElemBytes, int n>
void stream_deinterleave_block(const Block& all_pixels) {
  constexpr int64_t kLinePixels = kLineBytes / kElemBytes;
  constexpr int64_t kPixels = kVecBytes / kElemBytes;
  const Block block = all_pixels;
  const auto store_pixels = [&](int64_t begin, int64_t end) {
    alignas(64) uint8_t held[n * kVecBytes];
    for (int64_t row = begin; row < end; row += kPixels) {
      const int64_t first = std::min(row, block.rows - kPixels);
      deinterleave_pixels<kElemBytes, n, 1, false>(block, first, held, kVecBytes);
      for (int i = 0; i < n; ++i) {
        std::memcpy(block.out + i * block.out_pitch_bytes + row * kElemBytes,
                    held + i * kVecBytes + (row - first) * kElemBytes,
                    static_cast<size_t>(std::min(kPixels, end - row) * kElemBytes));
      }
    }
  };
  HPTP_UNROLL
  for (int i = 0; i < n; ++i) {
    prefetch<false>(block.out + i * block.out_pitch_bytes + block.rows * kElemBytes);
  }
  int64_t row = std::min(elems_before_line(block.out, kElemBytes), block.rows);
  store_pixels(0, row);
  for (; row + kLinePixels <= block.rows; row += kLinePixels) {
    const uint8_t* ahead = block.in + row * n * kElemBytes + n * kChannelAheadBytes;
    HPTP_UNROLL
    for (int i = 0; i < n; ++i) prefetch<true>(ahead + i * kLineBytes);
    deinterleave_pixels<kElemBytes, n, kLineBytes / kVecBytes, true>(
        block, row, block.out + row * kElemBytes, block.out_pitch_bytes);
  }
  store_pixels(row, block.rows);
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

template <int kElemBytes>
void write_quads(const QuadColumns& columns) {
  alignas(64) uint8_t held[kHeldBytes];
  for (int64_t column = 0; column < columns.num_columns; ++column) {
    hold_column<kElemBytes>(columns, column, held);
    copy(columns.dst + columns.dst_offsets[column], held, columns.column_bytes);
  }
}

// A column ends with a line, unless it is the last tile's, whose end is the column's own.
template <int kElemBytes>
void write_quad_windows(const QuadWindows& windows) {
  constexpr int64_t kPieceBytes = piece_bytes(kElemBytes);
  alignas(64) uint8_t held[kHeldBytes];
  for (int64_t i = 0; i < windows.num_columns; ++i) {
    const int64_t column = windows.first_column + i;
    uint8_t* dst = windows.dst + windows.dst_offsets[column];
    const int64_t own_end = kLineBytes + windows.column_bytes;
    const int64_t begin = windows.first ? kLineBytes : window_begin(dst);
    const int64_t end =
        windows.last ? own_end : own_end - kLineBytes + window_begin(dst + windows.column_bytes);
    for (int64_t at = begin / kPieceBytes * kPieceBytes; at < end; at += kPieceBytes) {
      const uint8_t* from = windows.pieces[at / kPieceBytes] + column * kQuadRows * kElemBytes;
      std::memcpy(held + at, from, kPieceBytes);
    }
    copy(dst + begin - kLineBytes, held + begin, end - begin);
  }
}

#endif

#if HPTP_ISA_NOW == HPTP_ISA_SCALAR
template <int kElemBytes>
QuadKernels quad_kernels() {
  return {};
}
#else
template <int kElemBytes>
QuadKernels quad_kernels() {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  QuadKernels kernels{kElemBytes,
                      kRowStepBytes<kElemBytes>,
                      1,
                      load_quads<kElemBytes>,
                      write_quads<kElemBytes>,
                      nullptr,
                      nullptr,
                      nullptr};
  if constexpr (!kIsPowerOfTwo<kElemBytes>) {
    kernels.exchange = exchange_held_quads<kElemBytes>;
  } else if constexpr (kQuadBytes < 16) {
    kernels.columns_at_once = 16 / kQuadBytes;
    kernels.exchange = exchange_small_quads<kElemBytes>;
    kernels.write_windows = write_quad_windows<kElemBytes>;
    kernels.exchange_windows = exchange_small_windows<kElemBytes>;
  } else {
    kernels.exchange = exchange_quads<kElemBytes>;
    kernels.write_windows = write_quad_windows<kElemBytes>;
    kernels.exchange_windows = exchange_quad_windows<kElemBytes>;
  }
  return kernels;
}
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

#if HPTP_ISA_NOW == HPTP_ISA_SCALAR
#define HPTP_SQUARES(size) {"elements", element_block<size>, 1, 1}
#define HPTP_CHANNELS(size, n) {"elements", element_block<size>, n, 1}
#define HPTP_PIXELS(size, n) {"elements", element_block<size>, 1, n}
#else
#define HPTP_SQUARES(size) {"squares", square_block<size>, 1, 1}
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
      copy,
  };
  return set;
}

#undef HPTP_SQUARES
#undef HPTP_CHANNELS
#undef HPTP_PIXELS
#undef HPTP_EACH_CHANNELS

}  // namespace
}  // namespace hptp
