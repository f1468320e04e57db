/* hptp: tensor permute at memory speed. The C API (C99).
 *
 * Every function returns HPTP_OK or a negative HPTP_ERR_*; after an error nothing has been written.
 * perm is NumPy's: axis perm[i] of the source becomes axis i of the destination. Arrays are opaque
 * bytes: elem_size is the size of one element, and strides are in bytes. num_threads <= 0 means
 * automatic. All functions may be called from any thread. */
#ifndef HPTP_H_
#define HPTP_H_

#include <stddef.h>
#include <stdint.h>

#define HPTP_VERSION_MAJOR 0
#define HPTP_VERSION_MINOR 1
#define HPTP_VERSION_PATCH 0
#define HPTP_VERSION "0.1.0"

#define HPTP_MAX_NDIM 64

#ifndef HPTP_API
#if defined(_WIN32) && defined(HPTP_BUILD_SHARED)
#define HPTP_API __declspec(dllexport)
#elif defined(_WIN32) && defined(HPTP_USE_SHARED)
#define HPTP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define HPTP_API __attribute__((visibility("default")))
#else
#define HPTP_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  HPTP_OK = 0,
  HPTP_ERR_NOT_A_PERMUTATION = -1, /* an entry of perm is out of range or repeated */
  HPTP_ERR_NEGATIVE_SIZE = -2,     /* an entry of shape is negative */
  HPTP_ERR_BAD_NDIM = -3,          /* ndim is negative or above HPTP_MAX_NDIM */
  HPTP_ERR_SIZE_OVERFLOW = -4,     /* the array does not fit the address space */
  HPTP_ERR_OVERLAP = -5,           /* src and dst share memory, or dst overlaps itself */
  HPTP_ERR_NULL_POINTER = -6,      /* a pointer that is needed is NULL */
  HPTP_ERR_OUT_OF_MEMORY = -7,
  HPTP_ERR_NOT_IN_PLACE = -8, /* in place, only two axes of equal size can be exchanged */
  HPTP_ERR_UNSUPPORTED = -9   /* this combination of types and scaling is not supported */
};

/* Permutes the C-contiguous array src of `shape` into the C-contiguous array dst. */
HPTP_API int hptp_permute(const void* src, void* dst, size_t elem_size, int ndim,
                          const int64_t* shape, const int64_t* perm, int num_threads);

/* The same for strided arrays. src_strides_bytes follows the source's axes, dst_strides_bytes the
 * destination's; NULL means C-contiguous. src and dst point at element 0; strides may be negative,
 * and zero on the source. */
HPTP_API int hptp_permute_strided(const void* src, void* dst, size_t elem_size, int ndim,
                                  const int64_t* shape, const int64_t* perm,
                                  const int64_t* src_strides_bytes,
                                  const int64_t* dst_strides_bytes, int num_threads);

/* A plan: everything that can be decided without the data. One plan may be executed from many
 * threads at once. */
typedef struct hptp_plan hptp_plan;

/* Makes a plan (NULL strides as above) and stores it in *plan; destroy it with hptp_plan_destroy.
 */
HPTP_API int hptp_plan_create(hptp_plan** plan, size_t elem_size, int ndim, const int64_t* shape,
                              const int64_t* perm, const int64_t* src_strides_bytes,
                              const int64_t* dst_strides_bytes, int num_threads);
HPTP_API int hptp_plan_execute(const hptp_plan* plan, const void* src, void* dst);
/* Text for people, valid as long as the plan; "" for NULL. */
HPTP_API const char* hptp_plan_describe(const hptp_plan* plan);
/* NULL is allowed. */
HPTP_API void hptp_plan_destroy(hptp_plan* plan);

/* Text of a status code; never NULL. */
HPTP_API const char* hptp_strerror(int status);
/* The version of the library, "major.minor.patch". */
HPTP_API const char* hptp_version(void);
/* Caps the automatic thread count of this process; n <= 0 restores the default. */
HPTP_API void hptp_set_num_threads(int n);
/* The automatic thread count for an array of that many bytes. */
HPTP_API int hptp_auto_threads(uint64_t num_bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HPTP_H_ */
