// Fragments that several rows of lib.def share: text of the expression language, with the names they bind. After
// expansion equal text is one set of nodes, so rows that call each other pay for a reduction once.
#pragma once

// A line of text is a line of the expression, which clang-format cannot know.
// clang-format off

// exp: x * log2(e) is rounded to n by adding 1.5 * 2^23 (2^52), whose low bits then hold n; r = x - n * ln 2 with ln 2
// in two parts, the first short enough that n * part is exact; expm1(r) = r + r^2 * P(r) on |r| <= ln(2) / 2.
// EXP_SPLIT binds t, k (n as a float), r; `c` must not be too large.
#define EXP_POLY_F32                                                                                                   \
    "mad(mad(mad(mad(0.00139176159, r, 0.0083670998), r, 0.041666612), r, 0.16666539), r, 0.5)"
#define EXP_POLY_F64                                                                                                   \
    "mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(2.0925529825346334e-09, r, 2.510910737972192e-08), r,"                    \
    " 2.7557239526913109e-07), r, 2.7557244017119101e-06), r, 2.4801587363995493e-05), r,"                             \
    " 0.00019841269886306545), r, 0.0013888888888865278), r, 0.0083333333333215649), r,"                               \
    " 0.041666666666666706), r, 0.16666666666666677), r, 0.5)"
#define EXPM1_SERIES(poly) "mad(r * r, " poly ", r)"
#define EXP_SERIES(poly)   "mad(mad(" poly ", r, 1), r, 1)" // 1 + expm1, with one step less
#define EXP_SPLIT_F32(c)                                                                                               \
    "t = mad(" c ", 1.44269504, 12582912); k = t - 12582912;"                                                          \
    "r = mad(k, 2.12194440e-4, mad_exact(k, -0.693359375, " c "));"
#define EXP_SPLIT_F64(c)                                                                                               \
    "t = mad(" c ", 1.4426950408889634, 6755399441055744); k = t - 6755399441055744;"                                  \
    "r = mad(k, -1.90821492927058770002e-10, mad_exact(k, -6.93147180369123816490e-01, " c "));"

// log: u = 2^e * (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), denormal u scaled first. Binds v, j, e, f.
#define LOG_SPLIT_F32(u)                                                                                               \
    "v = " u " < 1.17549435e-38 ? " u " * 8388608 : " u "; j = bits(v) - 0x3f3504f3;"                                  \
    "e = f32((j >> 23) - (" u " < 1.17549435e-38 ? i32(23) : 0)); f = from_bits((j & 0x7fffff) + 0x3f3504f3) - 1;"
// Only logical shifts and no conversion from i64, which few vector units have: the exponent is read by adding it to the
// bits of 2^52.
#define LOG_SPLIT_F64(u)                                                                                               \
    "v = " u " < 2.2250738585072014e-308 ? " u " * 4503599627370496 : " u ";"                                          \
    "j = bits(v) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);"                                                         \
    "e = from_bits(shru(j, 52) + 0x4330000000000000)"                                                                  \
    " - (" u " < 2.2250738585072014e-308 ? f64(4503599627371571) : 4503599627371519);"                                 \
    "f = from_bits((j & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1;"
// log(1 + f) = f - z / 2 + g with z = f^2. Binds z, g (f64: s).
#define LOG_SERIES_F32                                                                                                 \
    "z = f * f; g = f * z * mad(mad(mad(mad(mad(mad(mad(mad(0.042385485, f, -0.103412233), f, 0.122965917), "          \
    "f, -0.126609206), f, 0.141987666), f, -0.166525438), f, 0.200024948), f, -0.25000295), f, 0.333333105);"
#define LOG_SERIES_F64                                                                                                 \
    "z = f * f; s = f / (2 + f); sz = s * s; g = s * mad(sz, mad(mad(mad(mad(mad(mad(0.14795626546964938, "            \
    "sz, 0.15314085483571238), sz, 0.18183562827789079), sz, 0.22222198605469309), sz, 0.28571428742024679), "         \
    "sz, 0.39999999999416652), sz, 0.6666666666666734), 0.5 * z);"
// The value `y` of a logarithm of x, with the cases outside (0, inf).
#define LOG_CASES(y) "x > 0 ? (x < inf ? " y " : x) : (x == 0 ? -inf : nan)"

// sin, cos, tan of f32: SIN_NEAR_F32, COS_NEAR_F32, TRIG_NEAR_F32 up to 3200, TRIG_SPLIT_F32 beyond.
//
// Near: n = rint(x / pi), |n| < 2^10, of cos the odd number nearest to |x| * 2/pi, of tan any; pi, or pi/2, in parts so
// short that n * part is exact, and a rest. The first two differences are exact; the error of the third joins the rest,
// so that one rounding is left. With pi one series on |r| <= pi/2 does, whose signs keep r = -0; tan binds the quadrant
// kn, the sine and the cosine of r, as TRIG_SPLIT_F32 does q, sr and cr.
#define NEAR_F32(x, c1, c2, c3, c4)                                                                                    \
    "dn = mad_exact(wn, -" c2 ", mad_exact(wn, -" c1 ", " x ")); pn = wn * " c3 "; en = dn - pn;"                      \
    "rn = en - mad(wn, " c4 ", pn - (dn - en)); zn = rn * rn;"
#define SINE_F32                                                                                                       \
    "un = rn * zn; sn = rn - mad(un, 0.166666672, un * (zn * mad(mad(mad(2.55025938e-08, zn, -2.76270498e-06), zn,"    \
    " 0.000198430935), zn, -0.00833335053)));"
#define SIN_NEAR_F32                                                                                                   \
    "tn = mad(x, 0.318309886, 12582912); wn = tn - 12582912;"                                                          \
    NEAR_F32("x", "3.14135742", "0.000235199928", "3.17813829e-08", "5.12668814e-12") SINE_F32
#define COS_NEAR_F32                                                                                                   \
    "ax = abs(x); tn = mad(ax, 0.318309886, -0.5) + 12582912; wn = mad(2, tn - 12582912, 1);"                          \
    NEAR_F32("ax", "1.57055664", "0.000239610672", "7.54953362e-08", "2.56334407e-12") SINE_F32
#define TRIG_SERIES_F32(z, r, sine, cosine)                                                                            \
    sine " = mad(" r " * " z ", mad(mad(-0.000195181055, " z ", 0.00833218824), " z ", -0.166666552), " r ");"         \
    cosine " = mad(" z " * " z ", mad(mad(2.4430643e-05, " z ", -0.00138873013), " z ", 0.0416666456),"                \
    " mad(-0.5, " z ", 1));"
#define TRIG_NEAR_F32                                                                                                  \
    "ax = abs(x); tn = mad(ax, 0.636619772, 12582912); wn = tn - 12582912; kn = bits(tn);"                             \
    NEAR_F32("ax", "1.57055664", "0.000239670277", "1.58906914e-08", "2.56334407e-12")                                 \
    TRIG_SERIES_F32("zn", "rn", "sn", "cn")
// Far: after Payne and Hanek, exact for every finite x, in 32-bit integers.
// |x| = m * 2^E with a 24-bit m. Only the bits of 2/pi that make m * 2^E * 2/pi differ modulo 4 matter: 96 of them,
// from bit E - 1 on, are taken from a table of words (the first is 0, for |x| < 2^24; a chain of selects, since the
// language has no arrays) and multiplied by m. p0:p1 is then the fraction of |x| / 2pi; its top bits, rounded, are the
// quadrant q; the rest, made positive, times pi/2 is |r| <= pi/4. The product with pi/2 is exact in its leading part.
// Binds q (i32) among others.
#define PIO2_WORD(a, b, c, d, e)                                                                                       \
    "wi == 0 ? i32(" a ") : wi == 1 ? i32(" b ") : wi == 2 ? i32(" c ") : wi == 3 ? i32(" d ") : i32(" e ");"
#define TRIG_SPLIT_F32                                                                                                 \
    "ix = bits(ax); at = (ix >> 23) - 120; wi = at >> 5; sh = at & 31; nsh = 31 - sh;"                    \
    "m = (ix & 0x7fffff) | 0x800000;"                                                                                  \
    "wa = " PIO2_WORD("0", "0xa2f9836e", "0x4e441529", "0xfc2757d1", "0xf534ddc0")                                     \
    "wb = " PIO2_WORD("0xa2f9836e", "0x4e441529", "0xfc2757d1", "0xf534ddc0", "0xdb629599")                            \
    "wc = " PIO2_WORD("0x4e441529", "0xfc2757d1", "0xf534ddc0", "0xdb629599", "0x3c439041")                            \
    "wd = " PIO2_WORD("0xfc2757d1", "0xf534ddc0", "0xdb629599", "0x3c439041", "0xfe5163ab")                            \
    "va = (wa << sh) | shru(shru(wb, 1), nsh); vb = (wb << sh) | shru(shru(wc, 1), nsh);"                              \
    "vc = (wc << sh) | shru(shru(wd, 1), nsh);"                                                                        \
    "mb = m * vb; p1 = mb + umulhi(m, vc);"                                                                            \
    "p0 = m * va + umulhi(m, vb) + i32((p1 ^ 0x80000000) < (mb ^ 0x80000000));"                                        \
    "q = shru(p0 + 0x20000000, 30); rest = p0 - (q << 30); sign = rest >> 31;"                                         \
    "hi = rest ^ sign; lo = p1 ^ sign; uh = f32(hi & 0xfffc0000);"                                                     \
    "ul = f32(hi & 0x3ffff) + f32(shru(lo, 8)) * 5.9604644775390625e-8;"                                               \
    "ra = uh * 1.4629222278017551e-09 + (uh * -4.1485346e-15 + ul * 1.46291808e-9);"                                   \
    "r = from_bits(bits(ra) ^ (sign & 0x80000000)); z = r * r;" TRIG_SERIES_F32("z", "r", "sr", "cr")
#define TRIG_SERIES_F64(z, r, sine, cosine)                                                                            \
    sine " = mad(" r " * " z ", mad(mad(mad(mad(mad(1.5896448827722658e-10, " z ", -2.5050753083667672e-08), " z ","   \
    " 2.7557313667470536e-06), " z ", -0.00019841269829767207), " z ", 0.0083333333333224183), " z ","                 \
    " -0.16666666666666632), " r ");"                                                                                  \
    cosine " = mad(" z " * " z ", mad(mad(mad(mad(mad(-1.135844350260115e-11, " z ", 2.0875700703153773e-09), " z ","  \
    " -2.7557314191765282e-07), " z ", 2.4801587288946954e-05), " z ", -0.0013888888888873303), " z ","                \
    " 0.041666666666666595), mad(-0.5, " z ", 1));"
// f64: the same in 64-bit words. 192 bits of 2/pi come through five stages of selects, each of which moves the table by
// half of what the one before did; products of 64 bits are made of halves. The remainder, 128 bits of a turn, becomes
// the sum u + ue, so that it has all its digits also next to a multiple of pi/2, where most of the bits cancel.
#define TRIG_SPLIT_F64                                                                                                 \
    "ix = bits(ax); at = shru(ix, 52) - 1013; wi = shru(at, 6); sh = at & 63; nsh = 63 - sh;"             \
    "m = (ix & 0xfffffffffffff) | 0x10000000000000;"                                                                   \
    "t16 = (wi & 16) != 0; t8 = (wi & 8) != 0; t4 = (wi & 4) != 0; t2 = (wi & 2) != 0; t1 = (wi & 1) != 0;"            \
    "z0 = t16 ? i64(0x7527bac7ebe5f17b) : i64(0);"                                                                     \
    "z1 = t16 ? i64(0x3d0739f78a5292ea) : i64(0xa2f9836e4e441529);"                                                    \
    "z2 = t16 ? i64(0x6bfb5fb11f8d5d08) : i64(0xfc2757d1f534ddc0);"                                                    \
    "z3 = t16 ? i64(0x56033046fc7b6bab) : i64(0xdb6295993c439041);"                                                    \
    "e0 = t8 ? i64(0xe88235f52ebb4484) : z0;"                                                                          \
    "e1 = t8 ? i64(0xe99c7026b45f7e41) : z1;"                                                                          \
    "e2 = t8 ? i64(0x3991d639835339f4) : z2;"                                                                          \
    "e3 = t8 ? i64(0x9c845f8bbdf9283b) : z3;"                                                                          \
    "e4 = t8 ? i64(0x1ff897ffde05980f) : i64(0xfe5163abdebbc561);"                                                     \
    "e5 = t8 ? i64(0xef2f118b5a0a6d1f) : i64(0xb7246e3a424dd2e0);"                                                     \
    "e6 = t8 ? i64(0x6d367ecf27cb09b7) : i64(0x06492eea09d1921c);"                                                     \
    "e7 = t8 ? i64(0x4f463f669e5fea2d) : i64(0xfe1deb1cb129a73e);"                                                     \
    "e8 = t8 ? i64(0x7527bac7ebe5f17b) : i64(0xe88235f52ebb4484);"                                                     \
    "e9 = t8 ? i64(0x3d0739f78a5292ea) : i64(0xe99c7026b45f7e41);"                                                     \
    "e10 = t8 ? i64(0x6bfb5fb11f8d5d08) : i64(0x3991d639835339f4);"                                                    \
    "f0 = t4 ? e4 : e0; f1 = t4 ? e5 : e1; f2 = t4 ? e6 : e2; f3 = t4 ? e7 : e3;"                                      \
    "f4 = t4 ? e8 : e4; f5 = t4 ? e9 : e5; f6 = t4 ? e10 : e6;"                                                        \
    "g0 = t2 ? f2 : f0; g1 = t2 ? f3 : f1; g2 = t2 ? f4 : f2; g3 = t2 ? f5 : f3; g4 = t2 ? f6 : f4;"                   \
    "w0 = t1 ? g1 : g0; w1 = t1 ? g2 : g1; w2 = t1 ? g3 : g2; w3 = t1 ? g4 : g3;"                                      \
    "va = (w0 << sh) | shru(shru(w1, 1), nsh); vb = (w1 << sh) | shru(shru(w2, 1), nsh);"                              \
    "vc = (w2 << sh) | shru(shru(w3, 1), nsh);"                                                                        \
    "mh = shru(m, 32); ml = m & 0xffffffff; bh = shru(vb, 32); bl = vb & 0xffffffff; ch = shru(vc, 32);"               \
    "ub = ml * bh + shru(ml * bl, 32); tb = mh * bl + (ub & 0xffffffff);"                                              \
    "mb = m * vb; p1 = mb + mh * ch + shru(mh * (vc & 0xffffffff), 32) + shru(ml * ch, 32);"                           \
    "p0 = m * va + (mh * bh + shru(ub, 32) + shru(tb, 32))"                                                            \
    " + i64((p1 ^ 0x8000000000000000) < (mb ^ 0x8000000000000000));"                                                   \
    "q = shru(p0 + 0x2000000000000000, 62); rest = p0 - (q << 62);"                                                    \
    "sign = rest >> 63; hi = rest ^ sign; lo = p1 ^ sign;"                                                             \
    "uh = (from_bits(shru(hi, 10) | 0x4330000000000000) - 4503599627370496) * 4503599627370496;"                       \
    "um = from_bits(((hi & 1023) << 42) | shru(lo, 22) | 0x4330000000000000) - 4503599627370496;"                      \
    "ul = (from_bits((lo & 0x3fffff) | 0x4330000000000000) - 4503599627370496) * 2.384185791015625e-07;"               \
    "ua = um + ul; u = uh + ua; ue = (ua - (u - uh)) + (ul - (ua - um));"                                              \
    "u1 = from_bits(bits(u) & 0xfffffffff8000000); u2 = u - u1;"                                                       \
    "ra = u1 * 7.744623748348094e-32"                                                                                  \
    " + (u2 * 7.74462382670789e-32 + (u1 * 7.835979592221012e-40 + ue * 7.74462382670789e-32));"                       \
    "r = from_bits(bits(ra) ^ (sign & 0x8000000000000000)); z = r * r;" TRIG_SERIES_F64("z", "r", "sr", "cr")

// f64 up to 1e9, at a third of the cost: n = rint(|x| * 2/pi), pi/2 in parts of 22 bits, so that n * part is exact up
// to n = 2^31. The differences are exact but for en, whose error joins the next.
#define TRIG_NEAR_F64                                                                                                  \
    "ax = abs(x); tn = mad(ax, 0.63661977236758134, 6755399441055744); wn = tn - 6755399441055744; kn = bits(tn);"     \
    "dn = (ax - wn * 1.570796012878418) - wn * 3.139164164167596e-07; pn = wn * 6.2233719696699885e-14;"               \
    "en = dn - pn; ln = ((dn - en) - pn) - wn * 2.0222659584103533e-21;"                                               \
    "rn = ((en + ln) - wn * 2.9038555403888538e-28) - wn * 4.3359050650618903e-35; zn = rn * rn;"                      \
    TRIG_SERIES_F64("zn", "rn", "sn", "cn")

// asin on [0, 1/2]: s + d, d = s * z * P(z), z = s^2; above, by the half angle. Binds s, d.
#define ASIN_F32                                                                                                       \
    "a = abs(x); big = a > 0.5; z = big ? (1 - a) * 0.5 : a * a; s = big ? sqrt(z) : a;"                               \
    "d = s * z * ((((0.0422118083 * z + 0.0241520908) * z + 0.0454760417) * z + 0.0749525204) * z + 0.166667536);"
#define ASIN_F64                                                                                                       \
    "a = abs(x); big = a > 0.5; z = big ? (1 - a) * 0.5 : a * a; s = big ? sqrt(z) : a;"                               \
    "d = s * z * (((((((((((0.031958595890584703 * z - 0.016293505104357259) * z + 0.019573522577586058) * z"          \
    " + 0.0065110025262264358) * z + 0.012173242381984221) * z + 0.01388460452956224) * z + 0.017359770440621296) * z" \
    " + 0.022371753572028565) * z + 0.030381959328949309) * z + 0.044642856823548772) * z + 0.075000000003429421) * z" \
    " + 0.16666666666665383);"

// atan(t) on |t| <= tan(pi/8). Binds z, p.
#define ATAN_SERIES_F32                                                                                                \
    "z = t * t; p = t + t * z * ((((-0.060903538 * z + 0.105993569) * z - 0.142444223) * z + 0.199985296) * z"         \
    " - 0.333333164);"
#define ATAN_SERIES_F64                                                                                                \
    "z = t * t; p = t + t * z * ((((((((((-0.017908281235226881 * z + 0.038065870332913178) * z"                       \
    " - 0.050393696193619747) * z + 0.058479067375124483) * z - 0.066631068643707422) * z + 0.076920604995167771) * z" \
    " - 0.090908977758352078) * z + 0.11111110784167071) * z - 0.14285714280212472) * z + 0.19999999999953769) * z"    \
    " - 0.33333333333333198);"

// erfc(x) for x >= 1/2: exp(-a^2) * G / (1 + 2a), a = x clamped, G a polynomial in (a - k) / (a + k). a^2 = p + l in
// two parts, since its absolute error is the relative one of the result; l joins the reduced argument of exp.
#define ERFC_G_F32                                                                                                     \
    "q = (a - 2) / (a + 2);"                                                                                           \
    "g = mad(mad(mad(mad(mad(mad(mad(mad(mad(0.000277001323, q, -0.0013881044), q, 0.000698515796), q, "               \
    "0.0087441504), q, -0.00787136424), q, -0.0542292409), q, 0.164033696), q, -0.166029647), q, -0.0927633047), q, "  \
    "1.27697837);"
#define ERFC_TAIL_F32                                                                                                  \
    "a = x > 10.2 ? 10.2 : x; p = a * a; l = square_error(a, p); t = mad(p, -1.44269504, 12582912); k = t - 12582912;" \
    "r = mad(k, 2.12194440e-4, mad_exact(k, -0.693359375, -p)) - l; w = " EXPM1_SERIES(EXP_POLY_F32) ";"               \
    ERFC_G_F32 "v = mad(g, w, g) / mad_exact(2, a, 1); scale_down(v, t)"
#define ERFC_G_F64                                                                                                     \
    "q = (a - 4) / (a + 4);"                                                                                           \
    "g = mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(mad("                                                                 \
    "mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(-3.9054006659364058e-08, "                                            \
    "q, -2.5476021666334362e-08), q, 1.1014990188231828e-07), q, 1.488325902714097e-07), q, "                          \
    "-9.8941676484466294e-08), q, -8.7564462297370102e-07), q, 4.2706195951729146e-07), q, 5.7450944594047638e-06), "  \
    "q, -1.1285707224988485e-05), q, -2.4414282002056184e-05), q, 0.00015064127442452528), q, "                        \
    "-0.00019925267434745981), q, -0.00075777717269457821), q, 0.0050319693101210736), q, -0.016197733576665773), "    \
    "q, 0.037167515603756376), q, -0.066330365847073344), q, 0.093732834994758749), q, -0.10103906603500623), q, "     \
    "0.068097054254781228), q, 0.015379652102600849), q, -0.13962111684056316), q, 1.2329951186255526);"
#define ERFC_TAIL_F64                                                                                                  \
    "a = x > 27.3 ? 27.3 : x; p = a * a; l = square_error(a, p); t = mad(p, -1.4426950408889634, 6755399441055744);"   \
    "k = t - 6755399441055744;"                                                                                        \
    "r = mad(k, -1.90821492927058770002e-10, mad_exact(k, -6.93147180369123816490e-01, -p)) - l;"                      \
    "w = " EXPM1_SERIES(EXP_POLY_F64) "; " ERFC_G_F64                                                                  \
    "v = mad(g, w, g) / mad_exact(2, a, 1); scale_down(v, t)"
// erf(a) / a - 1 in z = a^2, |a| <= 0.93 (f32), 1 (f64).
#define ERF_SERIES_F32                                                                                                 \
    "mad(mad(mad(mad(mad(-0.000598022947, z, 0.0049917642), z, -0.0267662313), z, 0.112818271), z, "                   \
    "-0.376124978), z, 0.128379151)"
#define ERF_SERIES_F64                                                                                                 \
    "mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(1.6385578281737891e-10, z, -1.7632501002756814e-09), z, "         \
    "1.6303685557043691e-08), z, -1.6598328764751976e-07), z, 1.6484730230060904e-06), z, "                            \
    "-1.4927094915652606e-05), z, 0.00012055394335022908), z, -0.00085483287354516007), z, "                           \
    "0.0052239776556880502), z, -0.026866170648281333), z, 0.11283791670972065), z, -0.37612638903184109), "           \
    "z, 0.12837916709551259)"

// 2^r, |r| <= 1/2.
#define EXP2_SERIES_F32                                                                                                \
    "mad(r, mad(mad(mad(mad(mad(0.000154701382, r, 0.00133909029), r, 0.00961802993), r, 0.0555035695), r, "           \
    "0.240226507), r, 0.693147182), 1)"
#define EXP2_SERIES_F64                                                                                                \
    "mad(r, mad(mad(mad(mad(mad(mad(mad(mad(mad(mad(4.4990896526982791e-10, r, 7.0746136390993764e-09), r, "           \
    "1.017777788227446e-07), r, 1.3215430463150692e-06), r, 1.5252734486356083e-05), r, "                              \
    "0.0001540353046666433), r, 0.0013333558145770979), r, 0.0096181291075867446), r, 0.055504108664824067), "         \
    "r, 0.2402265069591015), r, 0.69314718055994529), 1)"

// pow: log2(|a|) = e + z1 + z2 with more digits than the class has, after fdlibm. With m = 1 + f and s = f / (m + 1),
// log(m) = 2/3 * s * (3 + s^2 + r); s, 3 + s^2 + r, the product and 2 / (3 ln 2) are each kept in two parts, whose
// first is short (cut to half the digits), so that the products of first parts are exact. t1 + t2 is the logarithm, t1
// short; b * (t1 + t2) = ph + pl. Then 2^(ph + pl) as in exp2. A |b| beyond `most` overflows whatever a is.
#define POW_CORE(cut, poly, c_hi, c_lo, c, most, big, under, over)                                                     \
    "m = f + 1; i = 1 / (m + 1); s = f * i; s1 = from_bits(bits(s) & " cut "); d1 = from_bits(bits(m + 1) & " cut ");" \
    "s2 = i * ((f - s1 * d1) - s1 * (m - (d1 - 1))); z = s * s; r0 = z * z * " poly " + s2 * (s1 + s); q1 = s1 * s1;"  \
    "u1 = from_bits(bits(3 + q1 + r0) & " cut "); u2 = r0 - ((u1 - 3) - q1); g = s1 * u1; w = s2 * u1 + u2 * s;"       \
    "p1 = from_bits(bits(g + w) & " cut "); p2 = w - (p1 - g); z1 = p1 * " c_hi "; z2 = p1 * " c_lo " + p2 * " c ";"   \
    "t1 = from_bits(bits((z1 + z2) + e) & " cut "); t2 = z2 - ((t1 - e) - z1);"                                        \
    "y = b > " most " ? " most " : b < -" most " ? -" most " : b; y1 = from_bits(bits(y) & " cut ");"                  \
    "ph = y1 * t1; pl = (y - y1) * t1 + y * t2; x = ph + pl; xc = x > " over " ? " over " : x < " under ""             \
    " ? " under " : x;"                                                                                                \
    "t = xc + " big "; k = t - " big "; r = x == xc ? (ph - k) + pl : 0;"
// The cases of C99, given the value val for finite positive |a|, |b|.
#define POW_CASES                                                                                                      \
    "whole = trunc(b) == b; odd = whole && trunc(b * 0.5) != b * 0.5; n = abs(a);"                                     \
    "c1 = n == 0 || n == inf ? ((n == 0) == (b < 0) ? inf : 0) : val;"                                                 \
    "c2 = abs(b) == inf ? (n == 1 ? 1 : (n > 1) == (b > 0) ? inf : 0) : c1;"                                           \
    "c3 = a < 0 && a > -inf && !whole ? nan : signbit(a) && odd ? -c2 : c2;"                                           \
    "b == 0 || a == 1 ? 1 : isnan(a) || isnan(b) ? nan : c3"

// sin(pi * r) for |r| <= 1/2, z = r^2.
#define SINPI_F32                                                                                                      \
    "r * mad(mad(mad(mad(mad(-0.0436412878, z, 0.105458178), z, -0.60452354), z, 2.5506525), z, -5.1677289), z, "      \
    "3.14159274)"
#define SINPI_F64                                                                                                      \
    "r * mad(mad(mad(mad(mad(mad(mad(mad(mad(3.3756574108931484e-06, z, -3.0755776433892969e-06), z, "                 \
    "-2.0075370681358767e-05), z, 0.00046583022374037484), z, -0.0073703600364348493), z, 0.08214588034274603), z, "   \
    "-0.59926452900836347), z, 2.5501640398695078), z, -5.1677127800498939), z, 3.1415926535897931)"

// lgamma. With a = |x|, t = a below -1/2, else x:
//   t < 8       by the recurrence to lgamma(2 + u), |u| <= 1/2, which is u * P(u): the logarithm of the factors between
//               is added (t >= 1.5) or subtracted;
//   t >= 8      Stirling's series;
//   x < -1/2    by reflection, log(pi / (a * |sin(pi a)|)) - lgamma(a).
// u is exact in all cases, so the zeros at 1 and 2 are sharp.
#define LGAMMA_CORE(poly, stirling, sinpi)                                                                             \
    "a = abs(x); neg = x < -0.5; t = neg ? a : x; big = t >= 8;"                                                       \
    "f = (t >= 2.5 ? t - 1 : 1) * (t >= 3.5 ? t - 2 : 1) * (t >= 4.5 ? t - 3 : 1) * (t >= 5.5 ? t - 4 : 1)"            \
    " * (t >= 6.5 ? t - 5 : 1) * (t >= 7.5 ? t - 6 : 1);"                                                              \
    "u = t < 0.5 ? t : t < 1.5 ? t - 1 : (t - 2) - floor(t - 1.5);"                                                    \
    "g = log(big ? t : t < 0.5 ? abs(t * (1 + t)) : t < 1.5 ? t : f); p = u * " poly "; s = 1 / t; y = s * s;"         \
    "v = big ? (t - 0.5) * (g - 1) + (0.41893853320467274 + s * " stirling ") : t < 1.5 ? p - g : p + g;"              \
    "r = a - rint(a); z = r * r; w = log(3.1415926535897931 / (a * abs(" sinpi "))) - v;"                              \
    "a < inf ? (neg ? (r == 0 ? inf : w) : v) : a * a"

// fmod: long division of the significands, base 2^11 (2^25). d = difference of the exponents = base * n + first. Every
// step multiplies the remainder by 2^base and takes it modulo the divisor m to the nearest, so |r| <= m / 2. The
// quotient digit q has few enough bits, and the divisor is in two parts short enough, that both products and both
// differences are exact, even where a device's 1 / m is a few units off; a step beyond n only repeats r. After the
// last, a negative r is moved up by m.
// FMOD_STEP takes the remainder `last` to `next`, the k-th of the c steps that are left.
#define FMOD_STEP_F32(k, last, next)                                                                                   \
    "x" next " = " last " * (c >= " k " ? 2048 : 1); q" next " = (x" next " * i + 12582912) - 12582912;" next          \
    " = (x" next " - q" next " * m1) - q" next " * m2;"
#define FMOD_STEP_F64(k, last, next)                                                                                   \
    "x" next " = " last " * (c >= " k " ? 33554432 : 1); q" next " = (x" next " * i + 6755399441055744)"               \
    " - 6755399441055744;" next " = (x" next " - q" next " * m1) - q" next " * m2;"

// The usual fmod, of a quotient a0 / b0 below 2^21 (2^50) whose operands and products are normal: the remainder w of
// the nearest quotient t, moved up by b0 where it is negative. The product t * b0 is p and an error, both exact: its
// four parts have at most 24 (53) bits, and so have the sums of these and a0 - p. A division that is a few units off
// makes t the next integer only where the remainder is near half of b0, which is as exact. Binds u, and `far`: fmod
// has to go the long way.
#define FMOD_USUAL(high, shift, most, least, greatest)                                                                 \
    "q = a0 / b0; t = (q + " shift ") - " shift "; t1 = from_bits(bits(t) & " high "); t2 = t - t1;"                   \
    "s1 = from_bits(bits(b0) & " high "); s2 = b0 - s1; p = t * b0;"                                                   \
    "w = (a0 - p) - ((((t1 * s1 - p) + t1 * s2) + t2 * s1) + t2 * s2); u = copysign(w < 0 ? w + b0 : w, a);"           \
    "far = q > " most " || isnan(q) || b0 < " least " || max(a0, b0) > " greatest " || as && bits(a0) != 0;"

// A term of the recurrence of tetragamma. Binds j<k>, i<k>.
#define TETRA_SUM(k, shift) "j" k " = 1 / (t + " shift "); i" k " = j" k " * j" k " * j" k ";"
