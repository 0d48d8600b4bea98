// One kind of fold in one class of a fused kernel. Included with FOLD (its name), PARTIAL (type of a partial value),
// COMBINE(a, b) and NOTHING (the value of no elements). The form gives N_LOCAL, LANES, LANE_STEP (from one lane of a
// row to the next) and SUBGROUP (invocations that shuffle). Gives, where folds of that reach are made:
//     nothing_F()      the value of no elements
//     across_row_F(v)  the values of all lanes of a row, combined; every lane of the row gets the result
//     across_all_F(v)  those of all invocations of the workgroup
//
// Distances double from step to step. Both partners of an exchange combine in the order of their numbers, so that all
// lanes hold the same bits, and these depend neither on timing nor on which invocation asks. Steps within a subgroup
// are shuffles; the rest goes through shared memory.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

PARTIAL JOIN(nothing_, FOLD)() { return NOTHING; }

shared PARTIAL JOIN(shared_, FOLD)[N_LOCAL];

// Combines over `n` invocations whose numbers differ by multiples of `first`; both are powers of two.
PARTIAL JOIN(exchange_, FOLD)(PARTIAL v, const uint first, const uint n)
{
    uint self = gl_LocalInvocationIndex, distance = first;
#if SUBGROUP > 1
    for (; distance < min(first * n, uint(SUBGROUP)); distance *= 2) {
        PARTIAL other = from_lane(v, distance);
        if ((self & distance) != 0) v = COMBINE(other, v);
        else v = COMBINE(v, other);
    }
#endif
    for (; distance < first * n; distance *= 2) {
        barrier();
        JOIN(shared_, FOLD)[self] = v;
        barrier();
        PARTIAL other = JOIN(shared_, FOLD)[self ^ distance];
        if ((self & distance) != 0) v = COMBINE(other, v);
        else v = COMBINE(v, other);
    }
    return v;
}
#ifdef ROWS_FOLD
PARTIAL JOIN(across_row_, FOLD)(const PARTIAL v) { return JOIN(exchange_, FOLD)(v, LANE_STEP, LANES); }
#endif
#ifdef WORKSPACE
PARTIAL JOIN(across_all_, FOLD)(const PARTIAL v) { return JOIN(exchange_, FOLD)(v, 1, N_LOCAL); }
#endif
#undef FOLD
#undef PARTIAL
#undef COMBINE
#undef NOTHING
