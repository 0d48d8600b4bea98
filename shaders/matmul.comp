#version 460
#include "matmul.glsl"
