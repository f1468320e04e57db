#include <hptp.h>
#include <stdio.h>

int main(void) {
  const int64_t shape[] = {2, 3, 4};
  const int64_t perm[] = {2, 0, 1};
  float src[24], dst[24];
  for (int i = 0; i < 24; ++i) src[i] = (float)i;

  int status = hptp_permute(src, dst, sizeof(float), 3, shape, perm, 0);
  if (status != HPTP_OK) {
    fprintf(stderr, "hptp_permute: %s\n", hptp_strerror(status));
    return 1;
  }
  printf("%g %g %g\n", dst[0], dst[1], dst[2]); /* 0 4 8 */
  return dst[0] == 0 && dst[1] == 4 && dst[2] == 8 ? 0 : 1;
}
