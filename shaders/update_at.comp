#version 460
// out[p + the place] = src[p]: see placed.glsl.
#define PLACED 2
#include "placed.glsl"
