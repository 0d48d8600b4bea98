// A graph as it was planned, drawn: boxes for ops in layers, coloured by the kernel that they are part of. For pages of
// HTML, whose style sheet knows the classes (jit/page.c).
#pragma once
#include "base/vec.h"
#include "program/maker.h"

// One box. A bend is where an edge passes a layer.
enum picture_kind { PICTURE_OP, PICTURE_INPUT, PICTURE_OUTPUT, PICTURE_LAUNCH, PICTURE_BEND };
struct picture_box {
    uint8_t kind;               // enum picture_kind
    int32_t step;               // of the schedule; -1: of none
    bool fused;                 // with others
    char *label, *type, *title; // title: lines; owned, NULL for bends
    int layer;
    double x, width; // centre
    double order;    // while layers are put in order
};
struct picture_edge {
    int32_t from, to; // boxes; layers of neighbours, once picture_layout has put bends between
};
struct picture {
    VEC(struct picture_box) boxes;
    VEC(struct picture_edge) edges;
    int n_layers;
    double width;
};

// picture.c: appends a <figure>, or a paragraph that says why there is none.
kiln_status picture_take(struct str *out, struct program_maker *m);

// picture_layout.c: layers, bends, order and places. Edges go from boxes to boxes behind them.
kiln_status picture_layout(struct picture *p);

// picture_svg.c
void picture_svg(const struct picture *p, struct str *out);
