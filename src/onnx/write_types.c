// In which dtypes ONNX has an op, of those that Kiln has, in version 18 of its operator set (Gelu: 20): the constraint
// on the operand that says how it computes.
#include "onnx/write.h"
#include <string.h>

#define BIT(id)  (1u << KILN_##id)
#define WIDE     (BIT(I32) | BIT(I64))
#define INTEGERS (BIT(U8) | BIT(I8) | BIT(I16) | WIDE)
#define PLAIN    (BIT(F16) | BIT(F32) | BIT(F64))
#define FLOATS   (PLAIN | BIT(BF16))
#define NUMBERS  (INTEGERS | FLOATS)
#define UNSIGNED (BIT(U16) | BIT(U32) | BIT(U64))
#define ALL      (NUMBERS | UNSIGNED | BIT(BOOL))

static const struct {
    unsigned dtypes;
    const char *ops; // each between blanks
} rows[] = {
    {ALL,
     " Cast Concat Equal Expand Gather GatherElements GatherND Identity Pad Reshape ScatterElements ScatterND Slice "
     "Squeeze Tile Transpose Trilu Unsqueeze Where "},
    {PLAIN, " Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cos Cosh Elu Mish Round Selu Sin "
            "Sinh Softplus Softsign Tan ThresholdedRelu "},
    {FLOATS, " BatchNormalization Ceil Erf Exp Floor Gelu IsNaN LayerNormalization LeakyRelu Log LogSoftmax Reciprocal "
             "Sigmoid Softmax Sqrt Tanh "},
    {NUMBERS, " Abs Add ArgMax ArgMin Clip Div Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Sign Sub "},
    {WIDE | FLOATS, " CumSum MatMul PRelu Pow ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean ReduceProd ReduceSum "},
    {BIT(BOOL), " And Not Or Xor "},
    {INTEGERS, " BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "},
    {ALL & ~BIT(BF16), " ConstantOfShape "},
    {INTEGERS | PLAIN, " TopK "},
    {INTEGERS | BIT(F16) | BIT(F32), " Shrink "}, // in f64 onnxruntime rounds to f32
    {BIT(F16) | BIT(F32), " HardSwish "},         // its 1/6 is one of f32
    {NUMBERS & ~BIT(U8), " Neg Relu "},
    {NUMBERS & ~BIT(I16), " ReduceMax ReduceMin "},
    {BIT(U8), " BitShift "},
    {BIT(F32), " Celu "},
    {BIT(F32) | BIT(F64), " IsInf "},
    {BIT(U8) | BIT(I8) | PLAIN, " MaxPool "},
    {BIT(I16) | WIDE | BIT(F32) | BIT(F64), " Range "},
};

static unsigned dtypes_of(const char *op)
{
    char word[64] = " ";
    strncat(word, op, sizeof word - 3);
    strcat(word, " ");
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strstr(rows[i].ops, word)) return rows[i].dtypes;
    return 0;
}

unsigned onnx_dtype_for(const char *op, unsigned dtype)
{
    static const uint8_t wider[DTYPE_COUNT] = {
        [KILN_BOOL] = KILN_I32,   [KILN_U8] = KILN_I32,     [KILN_I8] = KILN_I32,     [KILN_I16] = KILN_I32,
        [KILN_I32] = KILN_I64,    [KILN_I64] = DTYPE_COUNT, [KILN_F16] = KILN_F32,    [KILN_BF16] = KILN_F32,
        [KILN_U16] = KILN_I32,    [KILN_U32] = KILN_I64,    [KILN_U64] = DTYPE_COUNT, [KILN_F32] = DTYPE_COUNT,
        [KILN_F64] = DTYPE_COUNT, // f64 in place of f32 would not round as f32 does
    };
    unsigned taken = dtypes_of(op);
    while (dtype != DTYPE_COUNT && !(taken >> dtype & 1)) dtype = wider[dtype];
    return dtype;
}
