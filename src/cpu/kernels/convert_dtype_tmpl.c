// One storage dtype against every compute class. In: DTYPE, STORED, NUM, READ, WRITE; all are undefined at the end.
#define CLS    f32
#define CTYPE  float
#define LETTER f
#include "cpu/kernels/convert_class_tmpl.c"
#define CLS    f64
#define CTYPE  double
#define LETTER d
#include "cpu/kernels/convert_class_tmpl.c"
#define CLS    i32
#define CTYPE  int32_t
#define LETTER i
#include "cpu/kernels/convert_class_tmpl.c"
#define CLS    i64
#define CTYPE  int64_t
#define LETTER l
#include "cpu/kernels/convert_class_tmpl.c"
#define CLS    truth
#define CTYPE  uint8_t
#define LETTER b
#include "cpu/kernels/convert_class_tmpl.c"
#undef DTYPE
#undef STORED
#undef NUM
#undef READ
#undef WRITE
