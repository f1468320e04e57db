// Transposes by way of quads, for one instruction set.
//
// Included by kernels-inl.hpp inside the namespace of that set, hence no include guard. Four rows
// become a row of quads while they are loaded; a column is then a vector of each quad row. The rows
// of the next tile are loaded in the loop that writes the columns of this one, so that memory is
// read and written at the same time.

template <int kElemBytes>
constexpr bool kIsPowerOfTwo = (kElemBytes & (kElemBytes - 1)) == 0;

// What is loaded of a row at a time: four rows of it are whole lines.
template <int kElemBytes>
constexpr int64_t kRowStepBytes = kIsPowerOfTwo<kElemBytes> ? kLineBytes : 48;

#if HPTP_ISA_NOW == HPTP_ISA_AVX512
// A line of each of four rows → vectors of quads in the order of their columns.
template <int kElemBytes>
HPTP_INLINE void load_whole_quads(const uint8_t* const* rows, int64_t at, Vec* v) {
  if constexpr (kElemBytes == 4) {
    const Vec even[] = {load_anywhere(rows[0] + at), load_anywhere(rows[2] + at)};
    const Vec odd[] = {load_anywhere(rows[1] + at), load_anywhere(rows[3] + at)};
    const Vec lower[] = {zip_lo(even[0], even[1]), zip_lo(odd[0], odd[1])};
    const Vec upper[] = {zip_hi(even[0], even[1]), zip_hi(odd[0], odd[1])};
    v[0] = zip_lo(lower[0], lower[1]);
    v[1] = zip_hi(lower[0], lower[1]);
    v[2] = zip_lo(upper[0], upper[1]);
    v[3] = zip_hi(upper[0], upper[1]);
  } else {
    HPTP_UNROLL
    for (int k = 0; k < kQuadRows; ++k) v[k] = load_spread(rows[k] + at);
    shuffle_perfectly<kElemBytes, kQuadRows, log2(kQuadRows)>(v);
  }
}
#endif

// Vectors of four rows → quads. Elements of 16 bytes are quads as they lie. AVX-512 need not store
// small ones lane by lane: bytes went from 59 to 67 % of a copy's speed. (All sizes could be loaded
// spread; some shapes of 4-byte elements then take a fifth longer than zipped.)
template <int kElemBytes>
HPTP_INLINE void shuffle_quads(const uint8_t* const* rows, int64_t at, uint8_t* out) {
#if HPTP_ISA_NOW == HPTP_ISA_AVX512
  if constexpr (kElemBytes <= 4) {
    Vec v[kQuadRows];
    load_whole_quads<kElemBytes>(rows, at, v);
    HPTP_UNROLL
    for (int k = 0; k < kQuadRows; ++k) store(out + kVecBytes * k, v[k]);
    return;
  }
#endif
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
  const int64_t soon = std::min(at + kSoonBytes, rows.last_soon);
  HPTP_UNROLL
  for (int k = 0; k < kQuadRows; ++k) {
    prefetch<true>(rows.ahead[k] + at * rows.ahead_stride);
    if (kIsPowerOfTwo<kElemBytes>) prefetch<false>(rows.from[k] + soon);
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

// Where in what is put together of a column, which begins a line above the tile, its first line
// begins.
HPTP_INLINE int64_t window_begin(const uint8_t* dst) {
  return kLineBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) & (kLineBytes - 1));
}

// As many columns as a lane holds quads of.
template <int kElemBytes>
constexpr int kColumnsAtOnce = std::max<int64_t>(16 / (kQuadRows * kElemBytes), 1);

// A line of these columns → the first cache.
template <int kElemBytes>
HPTP_INLINE void hold_line(const uint8_t* from, const uint8_t* next, int64_t pitch_bytes,
                           uint8_t* held) {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  constexpr int kLineQuads = kLineBytes / kQuadBytes;
  constexpr int n = kColumnsAtOnce<kElemBytes>;
  HPTP_UNROLL
  for (int i = 0; i < kLineQuads; i += 4) prefetch<false>(next + i * pitch_bytes);
  HPTP_UNROLL
  for (int i = 0; i < kLineBytes; i += kVecBytes) {
    const uint8_t* quad = from + i / kQuadBytes * pitch_bytes + i % kQuadBytes;
    if constexpr (n == 1) {
      store(held + i, gather_quads<kQuadBytes>(quad, pitch_bytes));
    } else {
      Vec v[n];
      HPTP_UNROLL
      for (int j = 0; j < n; ++j) v[j] = load_lanes(quad + j * pitch_bytes, n * pitch_bytes);
      shuffle_perfectly<kQuadBytes, n, log2(n)>(v);
      HPTP_UNROLL
      for (int j = 0; j < n; ++j) store(held + j * kHeldBytes + i, v[j]);
    }
  }
}

// Behind the lines above the tile, which its own last ones replace. Every line prefetches its share
// of the quads of later columns.
template <int kElemBytes>
HPTP_INLINE void hold_windows(const QuadWindows& windows, int64_t column, uint8_t* held) {
  constexpr int kQuadBytes = kQuadRows * kElemBytes;
  constexpr int64_t kLineQuads = kLineBytes / kQuadBytes;
  constexpr int64_t kShares = std::min(kLineQuads, int64_t{4});
  constexpr int n = kColumnsAtOnce<kElemBytes>;
  const int64_t pitch_bytes = windows.pitch_bytes;
  const uint8_t* from = windows.quads + column * kQuadBytes;
  const uint8_t* next = from + column / n % kShares * pitch_bytes + kLineBytes;
  for (int64_t at = kLineBytes; at <= windows.column_bytes; at += kLineBytes) {
    hold_line<kElemBytes>(from, next, pitch_bytes, held + at);
    from += kLineQuads * pitch_bytes;
    next += kLineQuads * pitch_bytes;
  }
  HPTP_UNROLL
  for (int j = 0; j < n; ++j, held += kHeldBytes) {
    uint8_t* line = windows.lines + (column + j) * kLineBytes;
    copy_line(held, line);
    copy_line(line, held + windows.column_bytes);
  }
}

// The same for columns that begin anywhere in a line: what is put together of them is read from
// where their windows begin, some columns later, for it to have left the store buffer.
template <int kElemBytes>
void exchange_quad_windows(const QuadWindows& all_windows, const QuadRows& all_rows) {
  constexpr int n = kColumnsAtOnce<kElemBytes>;
  constexpr int64_t kAhead = 2;
  constexpr int64_t kSlots = 2 * kAhead;
  const QuadWindows windows = all_windows;
  const QuadRows rows = all_rows;
  const int64_t groups = windows.num_columns / n;
  alignas(64) uint8_t held[kSlots][n][kHeldBytes];
  int64_t at = rows.at;
  int64_t written = 0;
  for (int64_t next = 0; next < groups + kAhead; ++next) {
    if (next < groups) hold_windows<kElemBytes>(windows, next * n, held[next % kSlots][0]);
    const int64_t group = next - kAhead;
    if (group < 0) continue;
    for (int j = 0; j < n; ++j) {
      uint8_t* dst = windows.dst + windows.dst_offsets[group * n + j];
      const int64_t begin = window_begin(dst);
      const uint8_t* from = held[group % kSlots][j] + begin;
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
  constexpr int64_t kQuadBytes = kQuadRows * kElemBytes;
  alignas(64) uint8_t held[kHeldBytes];
  for (int64_t column = 0; column < windows.num_columns; ++column) {
    uint8_t* dst = windows.dst + windows.dst_offsets[column];
    uint8_t* line = windows.lines + column * kLineBytes;
    const uint8_t* from = windows.quads + column * kQuadBytes;
    for (int64_t at = 0; at < windows.column_bytes; at += kQuadBytes) {
      std::memcpy(held + kLineBytes + at, from, kQuadBytes);
      from += windows.pitch_bytes;
    }
    const int64_t own_end = kLineBytes + windows.column_bytes;
    const int64_t begin = windows.first ? kLineBytes : window_begin(dst);
    const int64_t end =
        windows.last ? own_end : own_end - kLineBytes + window_begin(dst + windows.column_bytes);
    if (!windows.first) copy_line(held, line);
    if (!windows.last) copy_line(line, held + windows.column_bytes);
    copy(dst + begin - kLineBytes, held + begin, end - begin);
  }
}

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
    kernels.exchange_windows = exchange_quad_windows<kElemBytes>;
  } else {
    kernels.exchange = exchange_quads<kElemBytes>;
    kernels.write_windows = write_quad_windows<kElemBytes>;
    kernels.exchange_windows = exchange_quad_windows<kElemBytes>;
  }
  return kernels;
}
