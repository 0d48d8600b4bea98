#version 460
// matmul of bf16 by matrix units.
#define MATRICES
#define MATRICES_BF16
#include "matmul.glsl"
