// The words of a SPIR-V module that code here reads and writes: a header, then instructions, each with its length (high
// half) and code (low half) in its first word. Numbers: Khronos, SPIR-V Specification, section 3.
#pragma once
#include <stdint.h>

enum { SPV_HEADER_WORDS = 5 };

enum spirv_op {
    SPV_OP_UNDEF = 1,
    SPV_OP_SOURCE_CONTINUED = 2,
    SPV_OP_SOURCE = 3,
    SPV_OP_SOURCE_EXTENSION = 4,
    SPV_OP_NAME = 5,
    SPV_OP_MEMBER_NAME = 6,
    SPV_OP_STRING = 7,
    SPV_OP_LINE = 8,
    SPV_OP_EXTENSION = 10,
    SPV_OP_ENTRY_POINT = 15,
    SPV_OP_CAPABILITY = 17,
    SPV_OP_TYPE_VOID = 19,
    SPV_OP_TYPE_BOOL = 20,
    SPV_OP_TYPE_INT = 21,
    SPV_OP_TYPE_FLOAT = 22,
    SPV_OP_TYPE_VECTOR = 23,
    SPV_OP_CONSTANT_TRUE = 41,
    SPV_OP_CONSTANT_FALSE = 42,
    SPV_OP_CONSTANT = 43,
    SPV_OP_CONSTANT_COMPOSITE = 44,
    SPV_OP_SPEC_TRUE = 48,
    SPV_OP_SPEC_FALSE = 49,
    SPV_OP_SPEC_CONSTANT = 50,
    SPV_OP_SPEC_COMPOSITE = 51,
    SPV_OP_SPEC_OP = 52,
    SPV_OP_FUNCTION = 54,
    SPV_OP_FUNCTION_PARAMETER = 55,
    SPV_OP_FUNCTION_END = 56,
    SPV_OP_FUNCTION_CALL = 57,
    SPV_OP_VARIABLE = 59,
    SPV_OP_LOAD = 61,
    SPV_OP_STORE = 62,
    SPV_OP_COPY_MEMORY = 63,
    SPV_OP_DECORATE = 71,
    SPV_OP_MEMBER_DECORATE = 72,
    SPV_OP_COMPOSITE_EXTRACT = 81,
    SPV_OP_BITCAST = 124,
    SPV_OP_IADD = 128,
    SPV_OP_ISUB = 130,
    SPV_OP_IMUL = 132,
    SPV_OP_UDIV = 134,
    SPV_OP_UMOD = 137,
    SPV_OP_LOGICAL_EQUAL = 164,
    SPV_OP_LOGICAL_NOT_EQUAL = 165,
    SPV_OP_LOGICAL_OR = 166,
    SPV_OP_LOGICAL_AND = 167,
    SPV_OP_LOGICAL_NOT = 168,
    SPV_OP_SELECT = 169,
    SPV_OP_IEQUAL = 170,
    SPV_OP_INOT_EQUAL = 171,
    SPV_OP_UGREATER = 172,
    SPV_OP_SGREATER = 173,
    SPV_OP_UGREATER_EQUAL = 174,
    SPV_OP_SGREATER_EQUAL = 175,
    SPV_OP_ULESS = 176,
    SPV_OP_SLESS = 177,
    SPV_OP_ULESS_EQUAL = 178,
    SPV_OP_SLESS_EQUAL = 179,
    SPV_OP_SHIFT_RIGHT = 194,
    SPV_OP_SHIFT_LEFT = 196,
    SPV_OP_OR = 197,
    SPV_OP_XOR = 198,
    SPV_OP_AND = 199,
    SPV_OP_CONTROL_BARRIER = 224,
    SPV_OP_MEMORY_BARRIER = 225,
    SPV_OP_ATOMIC_STORE = 228,
    SPV_OP_PHI = 245,
    SPV_OP_LOOP_MERGE = 246,
    SPV_OP_SELECTION_MERGE = 247,
    SPV_OP_LABEL = 248,
    SPV_OP_BRANCH = 249,
    SPV_OP_BRANCH_CONDITIONAL = 250,
    SPV_OP_SWITCH = 251,
    SPV_OP_KILL = 252,
    SPV_OP_RETURN = 253,
    SPV_OP_RETURN_VALUE = 254,
    SPV_OP_UNREACHABLE = 255,
    SPV_OP_NO_LINE = 317,
    SPV_OP_MODULE_PROCESSED = 330,
    // Matrices of subgroups: SPV_KHR_cooperative_matrix, SPV_NV_cooperative_matrix.
    SPV_OP_TYPE_MATRIX = 4456,
    SPV_OP_MATRIX_LOAD = 4457,
    SPV_OP_MATRIX_STORE = 4458,
    SPV_OP_MATRIX_MULTIPLY_ADD = 4459,
    SPV_OP_TYPE_MATRIX_NV = 5358,
    SPV_OP_MATRIX_LOAD_NV = 5359,
    SPV_OP_MATRIX_STORE_NV = 5360,
    SPV_OP_MATRIX_MULTIPLY_ADD_NV = 5361,
    SPV_OP_MATRIX_LENGTH_NV = 5362,
};

enum { SPV_DECORATION_SPEC_ID = 1 };
enum { SPV_STORAGE_FUNCTION = 7 };
enum { SPV_CAPABILITY_MATRICES_NV = 5357, SPV_CAPABILITY_MATRICES = 6022 };
// SPV_KHR_bfloat16
enum { SPV_CAPABILITY_F16 = 9, SPV_CAPABILITY_BF16 = 5116, SPV_CAPABILITY_BF16_MATRICES = 5118, SPV_ENCODING_BF16 = 0 };

static inline uint32_t spirv_op(uint32_t first_word)
{
    return first_word & 0xffff;
}
static inline uint32_t spirv_length(uint32_t first_word)
{
    return first_word >> 16;
}
static inline uint32_t spirv_first_word(uint32_t length, enum spirv_op op)
{
    return length << 16 | op;
}
