/* oneDNN as a yardstick, where it is installed: found at run time, so that nothing depends on it. */
#include <dlfcn.h>
#include <omp.h>
#include <stdint.h>

#include "bench/bench.h"
#include "bench/bench_measure.h"

typedef int (*sgemm_function)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                              int64_t ldc);

static sgemm_function sgemm;

const char *bench_onednn_name(void)
{
  static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "dnnl_sgemm") : NULL;
    if (!symbol) continue;
    *(void **)&sgemm = symbol; /* as POSIX writes it */
    return names[i];
  }
  return NULL;
}

int bench_onednn_sgemm(size_t rows, size_t columns, size_t inner, const float *a, const float *b, float *c)
{
  omp_set_num_threads(1); /* this process does nothing but measure one core */
  return sgemm('N', 'N', (int64_t)rows, (int64_t)columns, (int64_t)inner, 1, a, (int64_t)inner, b,
               (int64_t)columns, 0, c, (int64_t)columns);
}
