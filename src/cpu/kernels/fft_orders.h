// Orders of elements of two vectors, by how many elements a vector has: to part pairs into real and imaginary parts, to
// join these, and to transpose squares.
#pragma once

#define EVEN_16        0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16         1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define FIRST_PAIRS_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LAST_PAIRS_16  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define KEEP_8_16      0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define TAKE_8_16      8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define KEEP_4_16      0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define TAKE_4_16      4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define KEEP_2_16      0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define TAKE_2_16      2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define KEEP_1_16      0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define TAKE_1_16      1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define EVEN_8         0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8          1, 3, 5, 7, 9, 11, 13, 15
#define FIRST_PAIRS_8  0, 8, 1, 9, 2, 10, 3, 11
#define LAST_PAIRS_8   4, 12, 5, 13, 6, 14, 7, 15
#define KEEP_4_8       0, 1, 2, 3, 8, 9, 10, 11
#define TAKE_4_8       4, 5, 6, 7, 12, 13, 14, 15
#define KEEP_2_8       0, 1, 8, 9, 4, 5, 12, 13
#define TAKE_2_8       2, 3, 10, 11, 6, 7, 14, 15
#define KEEP_1_8       0, 8, 2, 10, 4, 12, 6, 14
#define TAKE_1_8       1, 9, 3, 11, 5, 13, 7, 15
#define EVEN_4         0, 2, 4, 6
#define ODD_4          1, 3, 5, 7
#define FIRST_PAIRS_4  0, 4, 1, 5
#define LAST_PAIRS_4   2, 6, 3, 7
#define KEEP_2_4       0, 1, 4, 5
#define TAKE_2_4       2, 3, 6, 7
#define KEEP_1_4       0, 4, 2, 6
#define TAKE_1_4       1, 5, 3, 7
#define EVEN_2         0, 2
#define ODD_2          1, 3
#define FIRST_PAIRS_2  0, 2
#define LAST_PAIRS_2   1, 3
#define KEEP_1_2       0, 2
#define TAKE_1_2       1, 3
