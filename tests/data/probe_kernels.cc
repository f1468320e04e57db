// Small kernels for test_aie_kernels.py: one VSHUFFLE of any mode, and one fault each.

#include <aie_api/aie.hpp>

using Vector = aie::vector<uint8_t, 64>;

extern "C" {

void shuffle_mode(const uint8_t* a, const uint8_t* b, uint8_t* out, int mode) {
  aie::store_v(out, ::shuffle(aie::load_v<64>(a), aie::load_v<64>(b), VShuffleMode(mode)));
}

// zip (0) or unzip (1) of two vectors of 64 bytes by chunks; out has room for both results.
void interleave(const uint8_t* a, const uint8_t* b, uint8_t* out, int unzip, int chunk) {
  const Vector v = aie::load_v<64>(a), w = aie::load_v<64>(b);
  const auto [first, second] =
      unzip ? aie::interleave_unzip(v, w, chunk) : aie::interleave_zip(v, w, chunk);
  aie::store_v(out, first);
  aie::store_v(out + 64, second);
}

void load_at(const uint8_t* in, int offset) { aie::load_v<64>(in + offset); }

void load_narrow_at(const uint8_t* in, int offset) { aie::load_v<16>(in + offset); }

void store_at(uint8_t* out, int offset) { aie::store_v(out + offset, Vector()); }

void get_element(const uint8_t* in, int index) { aie::load_v<64>(in).get(index); }
}

#ifdef TOO_WIDE
aie::vector<uint8_t, 256> too_wide;
#endif
