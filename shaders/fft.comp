#version 460
// Fourier transforms, divided by nothing, of lines of complex numbers, the last dimension of the space; VARIANT_0: the
// inverse. A workgroup does VARIANT_1 lines in shared memory, by Stockham's algorithm. With VARIANT_2, element k of
// column j is turned by root j k of a larger transform; see src/ops/fft.c. Operands: x, out, roots of the line, roots
// of the larger one; scalars: strides of the pairs of x and out, columns, length of the larger one, how many of its
// roots are fine ones.
#define N_OPERANDS 4
#define N_SCALARS 5
#if defined(KILN_CLASS_F32)
#define USES_F32
#define REAL float
#define PAIR vec2
#define LOAD(op, at) load_f32(op, at)
#define STORE(at, v) store_f32(1, at, v)
const uint MOST = 1024;
#else
#define USES_F64
#define REAL double
#define PAIR dvec2
#define LOAD(op, at) load_f64(op, at)
#define STORE(at, v) store_f64(1, at, v)
const uint MOST = 512;
#endif
#include "args.glsl"
layout(local_size_x = 256) in;
#include "space.glsl"

const uint SIZE = 256;
const uint LINES = VARIANT_1;
const REAL SIGN = VARIANT_0 != 0 ? REAL(1) : REAL(-1);

shared PAIR room[2 * MOST];

PAIR product(PAIR a, PAIR b) { return PAIR(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

PAIR root(uint i)
{
    int64_t at = int64_t(2 * i);
    return PAIR(LOAD(2, at), SIGN * LOAD(2, at + 1l));
}

PAIR larger_root(uint t)
{
    uint fine = uint(arg_scalar_i64(4));
    int64_t low = int64_t(2 * (t % fine)), high = int64_t(2 * (fine + t / fine));
    PAIR r = product(PAIR(LOAD(3, low), LOAD(3, low + 1l)), PAIR(LOAD(3, high), LOAD(3, high + 1l)));
    return PAIR(r.x, SIGN * r.y);
}

// Of invocation i in turn: an element of a line, so that neighbours read what lies near.
void place(uint i, uint n, bool beside, out uint line, out uint k)
{
    line = beside ? i % LINES : i / n;
    k = beside ? i / LINES : i % n;
}

uint radix_of(uint length)
{
    if (length % 4 == 0) return 4;
    uint r = 2;
    while (length % r != 0) r++;
    return r;
}

// One butterfly: from room[x + j far], to room[y + k run], by roots p k step.
void radix2(uint x, uint far, uint y, uint run, uint turn)
{
    PAIR a = room[x], b = room[x + far];
    room[y] = a + b;
    room[y + run] = product(a - b, root(turn));
}

void radix4(uint x, uint far, uint y, uint run, uint turn)
{
    PAIR a = room[x], b = room[x + far], c = room[x + 2 * far], d = room[x + 3 * far];
    PAIR e = a + c, f = a - c, g = b + d, h = PAIR(-SIGN * (b.y - d.y), SIGN * (b.x - d.x));
    room[y] = e + g;
    room[y + run] = product(f + h, root(turn));
    room[y + 2 * run] = product(e - g, root(2 * turn));
    room[y + 3 * run] = product(f - h, root(3 * turn));
}

void radix_any(uint radix, uint x, uint far, uint y, uint run, uint turn, uint n)
{
    for (uint k = 0; k < radix; k++) {
        PAIR sum = PAIR(0);
        for (uint j = 0; j < radix; j++) {
            uint i = (turn * k + j * k % radix * (n / radix)) % n;
            sum += product(room[x + j * far], root(i));
        }
        room[y + k * run] = sum;
    }
}

void main()
{
    uint n = arg_size(RANK - 1), lines = space_size(0, RANK - 1);
    uint first = group_index() * LINES, t = gl_LocalInvocationIndex;
    if (first >= lines) return;
    int64_t at[N_OPERANDS];
    uint line, k;
    bool beside = abs(arg_stride(0, RANK - 1)) > abs(int(arg_scalar_i64(0)));
    for (uint i = t; i < LINES * n; i += SIZE) {
        place(i, n, beside, line, k);
        if (first + line >= lines) continue;
        locate(first + line, RANK - 1, at);
        int64_t from = at[0] + int64_t(k) * int64_t(arg_stride(0, RANK - 1));
        room[line * n + k] = PAIR(LOAD(0, from), LOAD(0, from + arg_scalar_i64(0)));
    }
    uint now = 0, run = 1, step = 1;
    for (uint length = n; length > 1;) {
        uint radix = radix_of(length), m = length / radix, many = n / radix;
        barrier();
        for (uint i = t; i < LINES * many; i += SIZE) {
            uint base = i / many * n, b = i % many, p = b / run, q = b % run;
            uint x = now + base + q + run * p, y = (MOST - now) + base + q + run * radix * p;
            uint far = run * m, turn = p * step;
            if (radix == 4) radix4(x, far, y, run, turn);
            else if (radix == 2) radix2(x, far, y, run, turn);
            else radix_any(radix, x, far, y, run, turn, n);
        }
        now = MOST - now;
        length = m;
        run *= radix;
        step *= radix;
    }
    barrier();
    beside = abs(arg_stride(1, RANK - 1)) > abs(int(arg_scalar_i64(1)));
    for (uint i = t; i < LINES * n; i += SIZE) {
        place(i, n, beside, line, k);
        if (first + line >= lines) continue;
        locate(first + line, RANK - 1, at);
        PAIR v = room[now + line * n + k];
        if (VARIANT_2 != 0) v = product(v, larger_root(k * ((first + line) % uint(arg_scalar_i64(2)))));
        int64_t to = at[1] + int64_t(k) * int64_t(arg_stride(1, RANK - 1));
        STORE(to, v.x);
        STORE(to + arg_scalar_i64(1), v.y);
    }
}
