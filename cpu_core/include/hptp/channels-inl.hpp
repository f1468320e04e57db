// Planes of 2, 3 or 4 channels → pixels, and back, for one instruction set.
//
// Included by kernels-inl.hpp inside the namespace of that set, hence no include guard. A vector of
// each of n channels is n vectors of pixels: a byte shuffle of every one for every other, and an
// or.

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
    in[i] = load_anywhere(from);
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
