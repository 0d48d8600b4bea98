// Included by a generated row kernel once for each kind of reduction it holds, with REDUCTION (its name), PARTIAL
// (type of a partial value), COMBINE and IDENTITY. Gives:
//     identity_R()          the value of an empty row
//     across_R(mine)        the partial values of all lanes of the row, combined; every lane gets the result
//     resume_R(k)           what all splits of the row saved for reduction k, combined, each lane a share
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

PARTIAL JOIN(identity_, REDUCTION)() { return IDENTITY; }

shared PARTIAL JOIN(lanes_, REDUCTION)[gl_WorkGroupSize.x];

// Two levels: FAN_IN lanes sum up the rest, then every lane sums up those. Neighbours read neighbouring words.
PARTIAL JOIN(across_, REDUCTION)(const PARTIAL mine)
{
    if (LANES == 1) return mine;
    barrier();   // those who still read the array for an earlier reduction
    JOIN(lanes_, REDUCTION)[lane_slot(lane)] = mine;
    barrier();
    if (LANES > FAN_IN) {
        PARTIAL sum = mine;
        if (lane < FAN_IN) {
            for (uint l = lane + FAN_IN; l < LANES; l += FAN_IN) {
                sum = COMBINE(sum, JOIN(lanes_, REDUCTION)[lane_slot(l)]);
            }
        }
        barrier();
        if (lane < FAN_IN) JOIN(lanes_, REDUCTION)[lane_slot(lane)] = sum;
        barrier();
    }
    PARTIAL all = JOIN(lanes_, REDUCTION)[lane_slot(0)];
    for (uint l = 1; l < min(LANES, FAN_IN); l++) all = COMBINE(all, JOIN(lanes_, REDUCTION)[lane_slot(l)]);
    return all;
}

PARTIAL JOIN(resume_, REDUCTION)(const uint k)
{
    PARTIAL sum = IDENTITY;
    if (row_exists()) {
        for (uint s = lane; s < arg_splits(); s += LANES) {
            PARTIAL saved;
            scratch_load(scratch_slot(k, s), saved);
            sum = COMBINE(sum, saved);
        }
    }
    return sum;
}
#undef REDUCTION
#undef PARTIAL
#undef COMBINE
#undef IDENTITY
