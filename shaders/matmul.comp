#version 460
// A product of matrices, in registers.
#include "matmul.glsl"
