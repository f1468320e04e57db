// Transposes every S×S block of an n×m tile in core memory (L1), for elements of ELEM_BYTES bytes.
//
// The DMA that wrote the tile into L2 has already put every block where it belongs, so after this
// kernel the whole tile is transposed and other work can follow in the same core.
//
// The tile is cut into pieces: S consecutive rows of the tile by as many bytes as divide its rows
// evenly, at most one 64-byte vector. As many pieces as fill a vector are transposed together, in S
// vectors whose elements are, by index, [block][column]; the S vectors are the rows of the blocks.
// It does not matter which pieces meet in a vector, so every tile takes this one path, and no piece
// is smaller or less aligned than its address: a piece of P bytes starts at a multiple of P as long
// as the tile does (P divides the bytes of a row, hence of a tile).
//
// Compile with ELEM_BYTES (1, 2, 4 or 8) and with the tile's size, DIM_M and DIM_N.

#include <aie_api/aie.hpp>
#include <cstdint>

#if !defined(ELEM_BYTES) || !defined(DIM_M) || !defined(DIM_N)
#error "define ELEM_BYTES, DIM_M and DIM_N"
#endif

// The host's AIE API checks scalar accesses through these; a core just makes them.
#ifndef AIE_MAY_READ
#define AIE_MAY_READ(pointer, bytes) true
#define AIE_MAY_WRITE(pointer, bytes) true
#endif

namespace {

#if ELEM_BYTES == 1
using Lane = uint8_t;
#elif ELEM_BYTES == 2
using Lane = uint16_t;
#elif ELEM_BYTES == 4 || ELEM_BYTES == 8
using Lane = uint32_t;  // an 8-byte element is two lanes: the vector unit has no 64-bit ones
#else
#error "ELEM_BYTES must be 1, 2, 4 or 8"
#endif

constexpr unsigned kVectorBytes = 64;
constexpr unsigned kWordBytes = 4;
constexpr unsigned kWords = kVectorBytes / kWordBytes;
constexpr unsigned kLanes = kVectorBytes / sizeof(Lane);
constexpr unsigned kLanesPerElement = ELEM_BYTES / sizeof(Lane);

using Vector = aie::vector<Lane, kLanes>;
using Words = aie::vector<uint32_t, kWords>;

inline unsigned largest_power_of_two_in(unsigned value) { return value & (0u - value); }

// Reads piece `slot` of `v`. Pieces narrower than the smallest vector go word by word.
template <unsigned PieceBytes>
inline __attribute__((always_inline)) void load_piece(Vector& v, unsigned slot, const uint8_t* in) {
  if constexpr (PieceBytes == kVectorBytes) {
    v = aie::load_v<kLanes>(reinterpret_cast<const Lane*>(in));
  } else if constexpr (PieceBytes >= 16) {
    constexpr unsigned kPieceLanes = PieceBytes / sizeof(Lane);
    v.insert(slot, aie::load_v<kPieceLanes>(reinterpret_cast<const Lane*>(in)));
  } else {
    Words words = v.template cast_to<uint32_t>();
    for (unsigned w = 0; w < PieceBytes / kWordBytes; ++w, in += kWordBytes) {
      uint32_t word = 0;
      if (AIE_MAY_READ(in, kWordBytes)) {
        __builtin_memcpy(&word, __builtin_assume_aligned(in, kWordBytes), kWordBytes);
      }
      words.set(word, slot * (PieceBytes / kWordBytes) + w);
    }
    v = words.template cast_to<Lane>();
  }
}

// Writes piece `slot` of `v`.
template <unsigned PieceBytes>
inline __attribute__((always_inline)) void store_piece(const Vector& v, unsigned slot,
                                                       uint8_t* out) {
  if constexpr (PieceBytes == kVectorBytes) {
    aie::store_v(reinterpret_cast<Lane*>(out), v);
  } else if constexpr (PieceBytes >= 16) {
    constexpr unsigned kPieceLanes = PieceBytes / sizeof(Lane);
    aie::store_v(reinterpret_cast<Lane*>(out), v.template extract<kPieceLanes>(slot));
  } else {
    const Words words = v.template cast_to<uint32_t>();
    for (unsigned w = 0; w < PieceBytes / kWordBytes; ++w, out += kWordBytes) {
      const uint32_t word = words.get(slot * (PieceBytes / kWordBytes) + w);
      if (AIE_MAY_WRITE(out, kWordBytes)) {
        __builtin_memcpy(__builtin_assume_aligned(out, kWordBytes), &word, kWordBytes);
      }
    }
  }
}

// The [S][blocks] elements of `v` as [blocks][S], in one VSHUFFLE.
template <unsigned S>
inline __attribute__((always_inline)) Vector transpose_in_vector(const Vector& v) {
  static_assert(S == 4 || S == 8);
  if constexpr (ELEM_BYTES == 1) {
    return ::shuffle(v, v, S == 4 ? T8_4x16 : T8_8x8);
  } else if constexpr (ELEM_BYTES == 2) {
    return ::shuffle(v, v, S == 4 ? T16_4x8 : T16_8x4);
  } else {
    static_assert(ELEM_BYTES == 4 && S == 4);
    return ::shuffle(v, v, T32_4x4);
  }
}

// Transposes the S×S blocks that lie side by side in v[0..S), and returns nothing to reorder but
// names: row `row_of_vector<S>(i)` of the blocks is in v[i].
//
// Think of the index bits. At first the row r is the vector's index, the column c the low bits of
// the element's. Unzipping vectors that differ in one bit of their index exchanges that bit for the
// lowest bit of the element's index and puts it on top, so log2(S) unzips leave c as the vector's
// index and [r][block] in the vector; one transpose within each vector makes that [block][r].
// VSHUFFLE has no such transpose for two blocks. Their halves are exchanged first, which makes the
// block the lowest bit of the vector's index; it comes back as the top element bit with the last
// unzip. Either way it is log2(S) + 1 VSHUFFLEs per vector, and log2(S) if a vector is one block.
template <unsigned S>
inline __attribute__((always_inline)) void transpose_blocks(Vector (&v)[S]) {
  constexpr unsigned kBlocks = kVectorBytes / ELEM_BYTES / S;
  constexpr unsigned kIndexBits = S == 4 ? 2 : 3;
  if constexpr (kBlocks == 2) {
    for (unsigned i = 0; i < S; i += 2) {
      const auto [low, high] = aie::interleave_zip(v[i], v[i + 1], kLanes / 2);
      v[i] = low;
      v[i + 1] = high;
    }
  }
  for (unsigned step = 0; step < kIndexBits; ++step) {
    const unsigned bit = 1u << (kBlocks == 2 ? (step + 1) % kIndexBits : step);
    for (unsigned i = 0; i < S; ++i) {
      if (i & bit) continue;
      const auto [even, odd] = aie::interleave_unzip(v[i], v[i | bit], kLanesPerElement);
      v[i] = even;
      v[i | bit] = odd;
    }
  }
  if constexpr (kBlocks > 2) {
    for (Vector& row : v) row = transpose_in_vector<S>(row);
  }
}

template <unsigned S>
constexpr unsigned row_of_vector(unsigned i) {
  const bool rotated = kVectorBytes / ELEM_BYTES / S == 2;
  return rotated ? i / 2 + i % 2 * (S / 2) : i;
}

// Walks the pieces of a tile, along the rows and then down, as byte offsets.
template <unsigned S, unsigned PieceBytes>
class Pieces {
 public:
  explicit Pieces(unsigned row_bytes) : row_bytes_(row_bytes) {}

  unsigned next() {
    const unsigned offset = row_ + column_;
    column_ += PieceBytes;
    if (column_ == row_bytes_) {
      column_ = 0;
      row_ += S * row_bytes_;
    }
    return offset;
  }

 private:
  unsigned row_bytes_;
  unsigned row_ = 0;
  unsigned column_ = 0;
};

// Transposes the blocks of the next `count` pieces, at most a vector's worth.
template <unsigned S, unsigned PieceBytes>
inline __attribute__((always_inline)) void transpose_pieces(const uint8_t* __restrict in,
                                                            uint8_t* __restrict out,
                                                            unsigned row_bytes, unsigned count,
                                                            Pieces<S, PieceBytes>& pieces) {
  unsigned offsets[kVectorBytes / PieceBytes];
  for (unsigned slot = 0; slot < count; ++slot) offsets[slot] = pieces.next();
  Vector v[S];
  for (unsigned r = 0; r < S; ++r) {
    for (unsigned slot = 0; slot < count; ++slot) {
      load_piece<PieceBytes>(v[r], slot, in + offsets[slot] + r * row_bytes);
    }
  }
  transpose_blocks<S>(v);
  for (unsigned i = 0; i < S; ++i) {
    for (unsigned slot = 0; slot < count; ++slot) {
      store_piece<PieceBytes>(v[i], slot, out + offsets[slot] + row_of_vector<S>(i) * row_bytes);
    }
  }
}

template <unsigned S, unsigned PieceBytes>
inline __attribute__((always_inline)) void transpose_all(const uint8_t* __restrict in,
                                                         uint8_t* __restrict out,
                                                         unsigned row_bytes, unsigned rows) {
  constexpr unsigned kPieces = kVectorBytes / PieceBytes;
  Pieces<S, PieceBytes> pieces(row_bytes);
  unsigned left = rows / S * (row_bytes / PieceBytes);
  for (; left >= kPieces; left -= kPieces) {
    transpose_pieces<S, PieceBytes>(in, out, row_bytes, kPieces, pieces);
  }
  if (left > 0) transpose_pieces<S, PieceBytes>(in, out, row_bytes, left, pieces);
}

// The tile in `in` has n rows of m elements; with m and n constant one branch is left.
template <unsigned S>
inline __attribute__((always_inline)) void transpose_tile(const void* in_tile, void* out_tile,
                                                          unsigned m, unsigned n) {
  const auto* in = static_cast<const uint8_t*>(in_tile);
  auto* out = static_cast<uint8_t*>(out_tile);
  const unsigned row_bytes = m * ELEM_BYTES;
  const unsigned piece_bytes = largest_power_of_two_in(row_bytes);
  if (piece_bytes >= 64) {
    transpose_all<S, 64>(in, out, row_bytes, n);
  } else if (piece_bytes == 32) {
    transpose_all<S, 32>(in, out, row_bytes, n);
  } else if (S * ELEM_BYTES <= 16 && piece_bytes == 16) {
    transpose_all<S, 16>(in, out, row_bytes, n);
  } else if (S * ELEM_BYTES <= 8 && piece_bytes == 8) {
    transpose_all<S, 8>(in, out, row_bytes, n);
  } else if (S * ELEM_BYTES <= 4) {
    transpose_all<S, 4>(in, out, row_bytes, n);
  }
}

template <unsigned PieceBytes>
inline __attribute__((always_inline)) void copy_all(const uint8_t* __restrict in,
                                                    uint8_t* __restrict out, unsigned size) {
  Vector v;
  for (unsigned offset = 0; offset < size; offset += PieceBytes) {
    load_piece<PieceBytes>(v, 0, in + offset);
    store_piece<PieceBytes>(v, 0, out + offset);
  }
}

}  // namespace

extern "C" {

void transpose_4x4(const void* in, void* out) { transpose_tile<4>(in, out, DIM_M, DIM_N); }

void transpose_8x8(const void* in, void* out) { transpose_tile<8>(in, out, DIM_M, DIM_N); }

// The tile as it is, to see what the data movement alone does.
void copy(const void* in_tile, void* out_tile) {
  const auto* in = static_cast<const uint8_t*>(in_tile);
  auto* out = static_cast<uint8_t*>(out_tile);
  const unsigned size = DIM_M * DIM_N * ELEM_BYTES;
  const unsigned piece_bytes = largest_power_of_two_in(size);
  if (piece_bytes >= 64) {
    copy_all<64>(in, out, size);
  } else if (piece_bytes == 32) {
    copy_all<32>(in, out, size);
  } else if (piece_bytes == 16) {
    copy_all<16>(in, out, size);
  } else {
    copy_all<4>(in, out, size);
  }
}
}
