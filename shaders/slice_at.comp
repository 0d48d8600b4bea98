#version 460
// out[p] = x[p + the place]: see placed.glsl.
#define PLACED 0
#include "placed.glsl"
