// Vectors of 16-byte lanes, the little the kernels need of them, for one instruction set.
//
// Included by kernels-inl.hpp inside the namespace of that set, hence no include guard. Every
// operation acts on each lane alone, which is what 128-bit sets do anyway and what AVX2 and AVX-512
// do cheaply: a wider vector is the same kernel at work on more rows.

#if HPTP_ISA_NOW == HPTP_ISA_SSE4

using Vec = __m128i;
constexpr int kLanes = 1;

HPTP_INLINE Vec load(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
HPTP_INLINE void store(uint8_t* p, Vec v) { _mm_storeu_si128((__m128i*)p, v); }
HPTP_INLINE void stream(uint8_t* p, Vec v) { _mm_stream_si128((__m128i*)p, v); }
HPTP_INLINE Vec load_lanes(const uint8_t* p, int64_t) { return load(p); }
HPTP_INLINE Vec load_pieces(const uint8_t* const* pieces, int64_t at) {
  return load(pieces[0] + at);
}
HPTP_INLINE void store_lanes(uint8_t* p, int64_t, Vec v) { store(p, v); }
template <int n, int k>
HPTP_INLINE Vec chunks_of(const Vec* v) {
  return v[k];
}
HPTP_INLINE Vec broadcast(const uint8_t* p) { return load(p); }
HPTP_INLINE Vec shuffle(Vec v, Vec mask) { return _mm_shuffle_epi8(v, mask); }
HPTP_INLINE Vec either(Vec a, Vec b) { return _mm_or_si128(a, b); }
#define HPTP_UNPACK(bits, half) _mm_unpack##half##_epi##bits

#elif HPTP_ISA_NOW == HPTP_ISA_AVX2

using Vec = __m256i;
constexpr int kLanes = 2;

HPTP_INLINE Vec load(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
HPTP_INLINE void store(uint8_t* p, Vec v) { _mm256_storeu_si256((__m256i*)p, v); }
HPTP_INLINE void stream(uint8_t* p, Vec v) { _mm256_stream_si256((__m256i*)p, v); }
HPTP_INLINE __m128i load_lane(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
HPTP_INLINE Vec load_lanes(const uint8_t* p, int64_t step_bytes) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_lane(p)), load_lane(p + step_bytes),
                                 1);
}
HPTP_INLINE Vec load_pieces(const uint8_t* const* pieces, int64_t at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_lane(pieces[0] + at)),
                                 load_lane(pieces[1] + at), 1);
}
HPTP_INLINE void store_lanes(uint8_t* p, int64_t step_bytes, Vec v) {
  _mm_storeu_si128((__m128i*)p, _mm256_castsi256_si128(v));
  _mm_storeu_si128((__m128i*)(p + step_bytes), _mm256_extracti128_si256(v, 1));
}
template <int n, int k>
HPTP_INLINE Vec chunks_of(const Vec* v) {
  constexpr int lower = 2 * k;
  constexpr int upper = 2 * k + 1;
  return _mm256_permute2x128_si256(v[lower % n], v[upper % n], lower / n + 16 * (2 + upper / n));
}
HPTP_INLINE Vec broadcast(const uint8_t* p) { return _mm256_broadcastsi128_si256(load_lane(p)); }
HPTP_INLINE Vec shuffle(Vec v, Vec mask) { return _mm256_shuffle_epi8(v, mask); }
HPTP_INLINE Vec either(Vec a, Vec b) { return _mm256_or_si256(a, b); }
#define HPTP_UNPACK(bits, half) _mm256_unpack##half##_epi##bits

#elif HPTP_ISA_NOW == HPTP_ISA_AVX512

using Vec = __m512i;
constexpr int kLanes = 4;

HPTP_INLINE Vec load(const uint8_t* p) { return _mm512_loadu_si512(p); }
HPTP_INLINE void store(uint8_t* p, Vec v) { _mm512_storeu_si512(p, v); }
HPTP_INLINE void stream(uint8_t* p, Vec v) { _mm512_stream_si512((__m512i*)p, v); }
HPTP_INLINE __m128i load_lane(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
HPTP_INLINE Vec load_lanes(const uint8_t* p, int64_t step_bytes) {
  Vec v = _mm512_castsi128_si512(load_lane(p));
  v = _mm512_inserti32x4(v, load_lane(p + step_bytes), 1);
  v = _mm512_inserti32x4(v, load_lane(p + 2 * step_bytes), 2);
  return _mm512_inserti32x4(v, load_lane(p + 3 * step_bytes), 3);
}
HPTP_INLINE Vec load_pieces(const uint8_t* const* pieces, int64_t at) {
  Vec v = _mm512_castsi128_si512(load_lane(pieces[0] + at));
  v = _mm512_inserti32x4(v, load_lane(pieces[1] + at), 1);
  v = _mm512_inserti32x4(v, load_lane(pieces[2] + at), 2);
  return _mm512_inserti32x4(v, load_lane(pieces[3] + at), 3);
}
HPTP_INLINE Vec load_halves(const uint8_t* p, int64_t step_bytes) {
  const Vec lower = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)p));
  return _mm512_inserti64x4(lower, _mm256_loadu_si256((const __m256i*)(p + step_bytes)), 1);
}
HPTP_INLINE void store_lanes(uint8_t* p, int64_t step_bytes, Vec v) {
  _mm_storeu_si128((__m128i*)p, _mm512_castsi512_si128(v));
  _mm_storeu_si128((__m128i*)(p + step_bytes), _mm512_extracti32x4_epi32(v, 1));
  _mm_storeu_si128((__m128i*)(p + 2 * step_bytes), _mm512_extracti32x4_epi32(v, 2));
  _mm_storeu_si128((__m128i*)(p + 3 * step_bytes), _mm512_extracti32x4_epi32(v, 3));
}
template <int n, int k, int i>
HPTP_INLINE void add_chunks(Vec* to, const Vec* v) {
  constexpr auto mask = [](int lane) { return (4 * k + lane) % n == i ? 3 << 2 * lane : 0; };
  constexpr auto half = [](int lane) { return (4 * k + lane) / n * 2; };
  const Vec halves = _mm512_setr_epi64(half(0), half(0) + 1, half(1), half(1) + 1,  //
                                       half(2), half(2) + 1, half(3), half(3) + 1);
  *to = _mm512_mask_permutexvar_epi64(*to, mask(0) | mask(1) | mask(2) | mask(3), halves, v[i]);
}
template <int n, int k>
HPTP_INLINE Vec chunks_of(const Vec* v) {
  Vec chunks = v[0];
  add_chunks<n, k, 0>(&chunks, v);
  add_chunks<n, k, 1>(&chunks, v);
  if constexpr (n > 2) add_chunks<n, k, 2>(&chunks, v);
  if constexpr (n > 3) add_chunks<n, k, 3>(&chunks, v);
  return chunks;
}
// Lane l holds the l-th four bytes of each lane of memory.
HPTP_INLINE Vec load_spread(const uint8_t* p) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), load(p));
}
// Four bytes of a and of b, alternating, of the lower (upper) halves of the vectors.
HPTP_INLINE Vec zip_lo(Vec a, Vec b) {
  return _mm512_permutex2var_epi32(
      a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
}
HPTP_INLINE Vec zip_hi(Vec a, Vec b) {
  return _mm512_permutex2var_epi32(
      a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b);
}
HPTP_INLINE Vec broadcast(const uint8_t* p) { return _mm512_broadcast_i32x4(load_lane(p)); }
HPTP_INLINE Vec shuffle(Vec v, Vec mask) { return _mm512_shuffle_epi8(v, mask); }
HPTP_INLINE Vec either(Vec a, Vec b) { return _mm512_or_si512(a, b); }
#define HPTP_UNPACK(bits, half) _mm512_unpack##half##_epi##bits

#elif HPTP_ISA_NOW == HPTP_ISA_NEON

using Vec = uint8x16_t;
constexpr int kLanes = 1;

HPTP_INLINE Vec load(const uint8_t* p) { return vld1q_u8(p); }
HPTP_INLINE void store(uint8_t* p, Vec v) { vst1q_u8(p, v); }
HPTP_INLINE void stream(uint8_t* p, Vec v) { vst1q_u8(p, v); }  // no such store in the intrinsics
HPTP_INLINE Vec load_lanes(const uint8_t* p, int64_t) { return load(p); }
HPTP_INLINE Vec load_pieces(const uint8_t* const* pieces, int64_t at) {
  return load(pieces[0] + at);
}
HPTP_INLINE void store_lanes(uint8_t* p, int64_t, Vec v) { store(p, v); }
template <int n, int k>
HPTP_INLINE Vec chunks_of(const Vec* v) {
  return v[k];
}
HPTP_INLINE Vec broadcast(const uint8_t* p) { return load(p); }
HPTP_INLINE Vec shuffle(Vec v, Vec mask) { return vqtbl1q_u8(v, mask); }
HPTP_INLINE Vec either(Vec a, Vec b) { return vorrq_u8(a, b); }

#endif

// A vector of memory that begins anywhere in a line, lane by lane: on Zen 5, loads of 64 bytes that
// cross lines took images from DRAM to pixels past the cache at half the speed of loads that do
// not.
HPTP_INLINE Vec load_anywhere(const uint8_t* p) { return load_lanes(p, 16); }

// Lane l of n vectors' i-th is chunk l * n + i: the chunks in order. (chunks_of<n, k> are those of
// the k-th vector.)
template <size_t... k>
HPTP_INLINE void sort_chunks(Vec* v, std::index_sequence<k...>) {
  constexpr int n = sizeof...(k);
  const Vec sorted[n] = {chunks_of<n, static_cast<int>(k)>(v)...};
  ((v[k] = sorted[k]), ...);
}

// The elements of the lower (upper) halves of a's and b's lanes, alternating: a0 b0 a1 b1 …
template <int kElemBytes>
HPTP_INLINE Vec unpack_lo(Vec a, Vec b) {
#if HPTP_ISA_NOW == HPTP_ISA_NEON
  if constexpr (kElemBytes == 1) return vzip1q_u8(a, b);
  if constexpr (kElemBytes == 2) {
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  }
  if constexpr (kElemBytes == 4) {
    return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  if constexpr (kElemBytes == 8) {
    return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }
#else
  if constexpr (kElemBytes == 1) return HPTP_UNPACK(8, lo)(a, b);
  if constexpr (kElemBytes == 2) return HPTP_UNPACK(16, lo)(a, b);
  if constexpr (kElemBytes == 4) return HPTP_UNPACK(32, lo)(a, b);
  if constexpr (kElemBytes == 8) return HPTP_UNPACK(64, lo)(a, b);
#endif
}

template <int kElemBytes>
HPTP_INLINE Vec unpack_hi(Vec a, Vec b) {
#if HPTP_ISA_NOW == HPTP_ISA_NEON
  if constexpr (kElemBytes == 1) return vzip2q_u8(a, b);
  if constexpr (kElemBytes == 2) {
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  }
  if constexpr (kElemBytes == 4) {
    return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  if constexpr (kElemBytes == 8) {
    return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }
#else
  if constexpr (kElemBytes == 1) return HPTP_UNPACK(8, hi)(a, b);
  if constexpr (kElemBytes == 2) return HPTP_UNPACK(16, hi)(a, b);
  if constexpr (kElemBytes == 4) return HPTP_UNPACK(32, hi)(a, b);
  if constexpr (kElemBytes == 8) return HPTP_UNPACK(64, hi)(a, b);
#endif
}

#undef HPTP_UNPACK
