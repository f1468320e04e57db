/* The C API, compiled as C99: the README's C example and every error code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hptp.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      abort();                                                                      \
    }                                                                               \
  } while (0)

static void check_permute(void) {
  const int64_t shape[] = {2, 3};
  const int64_t perm[] = {1, 0};
  const float src[] = {1, 2, 3, 4, 5, 6};
  const float expected[] = {1, 4, 2, 5, 3, 6};
  float dst[6] = {0};
  CHECK(hptp_permute(src, dst, sizeof(float), 2, shape, perm, 0) == HPTP_OK);
  CHECK(memcmp(dst, expected, sizeof expected) == 0);
}

static void check_strided(void) {
  const int64_t shape[] = {2, 3};
  const int64_t perm[] = {1, 0};
  const int64_t backwards[] = {-3, 1};
  const int64_t pitched[] = {4, 1};
  const char src[] = "abcdef";
  char dst[] = "............";
  CHECK(hptp_permute_strided(src + 3, dst, 1, 2, shape, perm, backwards, pitched, 1) == HPTP_OK);
  CHECK(strcmp(dst, "da..eb..fc..") == 0);
}

static void check_plan(void) {
  const int64_t shape[] = {40, 50};
  const int64_t perm[] = {1, 0};
  static int32_t src[40 * 50];
  static int32_t dst[50 * 40];
  hptp_plan* plan = NULL;
  int i;
  for (i = 0; i < 40 * 50; ++i) src[i] = i;
  CHECK(hptp_plan_create(NULL, 4, 2, shape, perm, NULL, NULL, 0) == HPTP_ERR_NULL_POINTER);
  CHECK(hptp_plan_create(&plan, 4, 2, shape, perm, NULL, NULL, 0) == HPTP_OK);
  CHECK(strlen(hptp_plan_describe(plan)) > 0);
  CHECK(hptp_plan_execute(plan, src, dst) == HPTP_OK);
  for (i = 0; i < 40 * 50; ++i) CHECK(dst[i] == i % 40 * 50 + i / 40);
  CHECK(hptp_plan_execute(plan, src, src) == HPTP_ERR_OVERLAP);
  CHECK(hptp_plan_execute(plan, NULL, dst) == HPTP_ERR_NULL_POINTER);
  CHECK(hptp_plan_execute(NULL, src, dst) == HPTP_ERR_NULL_POINTER);
  CHECK(strcmp(hptp_plan_describe(NULL), "") == 0);
  hptp_plan_destroy(plan);
  hptp_plan_destroy(NULL);
}

static void check_errors(void) {
  const int64_t shape[] = {2, 3};
  const int64_t negative[] = {2, -1};
  const int64_t huge[] = {INT64_MAX, 2};
  const int64_t perm[] = {1, 0};
  const int64_t outside[] = {1, 2};
  const int64_t same[] = {0, 1};
  char src[6] = "abcde";
  char dst[6] = "-----";
  CHECK(hptp_permute(src, dst, 1, 2, shape, outside, 0) == HPTP_ERR_NOT_A_PERMUTATION);
  CHECK(hptp_permute(src, dst, 1, 2, negative, perm, 0) == HPTP_ERR_NEGATIVE_SIZE);
  CHECK(hptp_permute(src, dst, 1, HPTP_MAX_NDIM + 1, shape, perm, 0) == HPTP_ERR_BAD_NDIM);
  CHECK(hptp_permute(src, dst, 1, 2, huge, perm, 0) == HPTP_ERR_SIZE_OVERFLOW);
  CHECK(hptp_permute(src, dst, SIZE_MAX, 2, shape, perm, 0) == HPTP_ERR_SIZE_OVERFLOW);
  CHECK(hptp_permute(src, src, 1, 2, shape, same, 0) == HPTP_ERR_OVERLAP);
  CHECK(hptp_permute(src, NULL, 1, 2, shape, perm, 0) == HPTP_ERR_NULL_POINTER);
  CHECK(strcmp(dst, "-----") == 0);
  CHECK(strlen(hptp_strerror(HPTP_ERR_OVERLAP)) > 0);
  CHECK(strcmp(hptp_strerror(12345), "unknown status") == 0);
}

static void check_threads(void) {
  hptp_set_num_threads(3);
  CHECK(hptp_auto_threads((uint64_t)1 << 30) == 3);
  CHECK(hptp_auto_threads(1) == 1);
  hptp_set_num_threads(0);
  CHECK(strcmp(hptp_version(), HPTP_VERSION) == 0);
}

int main(void) {
  check_permute();
  check_strided();
  check_plan();
  check_errors();
  check_threads();
  return 0;
}
