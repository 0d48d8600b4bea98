#version 460
// matmul of f16 by matrix units.
#define MATRICES
#include "matmul.glsl"
