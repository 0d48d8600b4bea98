#!/usr/bin/env python3
"""What tools/gpu-static says of figures that differ, of kernels that come and go, and of another driver.

usage: test_gpu_static.py
"""
import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

PATH = str(pathlib.Path(__file__).resolve().parents[2] / 'tools/gpu-static')
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('gpu_static', PATH)
static = importlib.util.module_from_spec(importlib.util.spec_from_loader('gpu_static', loader))
loader.exec_module(static)

FIGURES = [16, 0, 0, 32, 686, 108, 40, 4, 0, 32, 16, 16, 16] + [0] * (len(static.COLUMNS) - 13)
REPORT = {'target': 'navi21', 'driver': 'Mesa 1', 'columns': list(static.COLUMNS),
          'catalogue': {'add_f32': FIGURES, 'mul_f32': FIGURES}, 'rows': {'chain5': {'add_mul': FIGURES}}}


class GpuStatic(unittest.TestCase):
    def check(self, change, status, *expected):
        now = copy.deepcopy(REPORT)
        change(now)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(static.check(REPORT, now, pathlib.Path('navi21.json'),
                                          {'add_f32': ('pointwise', 'f32')}), status, said.getvalue())
        for text in expected:
            self.assertIn(text, said.getvalue())

    def test_the_same_is_good(self):
        self.check(lambda r: None, 0, '3 kernels on navi21 as committed')

    def test_figures_are_compared_exactly(self):
        self.check(lambda r: r['catalogue']['add_f32'].__setitem__(6, 41), 1, 'add_f32: instructions 40 -> 41',
                   '--write')
        self.check(lambda r: r['rows']['chain5']['add_mul'].__setitem__(0, 15), 1, 'chain5/add_mul: vgprs 16 -> 15')

    def test_kernels_that_come_and_go(self):
        self.check(lambda r: r['catalogue'].pop('mul_f32'), 1, 'mul_f32: has gone')
        self.check(lambda r: r['catalogue'].update(sub_f32=FIGURES), 1, 'sub_f32: is new')
        self.check(lambda r: r['rows'].pop('chain5'), 1, 'chain5/add_mul: has gone')
        self.check(lambda r: r['rows'].update(new={'sin': FIGURES}), 0, 'the row new is not in navi21.json')

    def test_spills_are_never_good(self):
        spilled = FIGURES[:1] + [4] + FIGURES[2:]
        self.check(lambda r: r['rows'].update(new={'sin': spilled}), 1, 'new/sin: 4 registers')
        self.check(lambda r: r.update(driver='Mesa 2', rows={'new': {'sin': spilled}}), 1, 'new/sin: 4 registers')

    def test_what_holds_for_kinds(self):
        def rules(name, kind, target='navi21', **figures):
            figures = {**dict.fromkeys(static.COLUMNS, 0), 'waves': 32, **figures}
            return list(static.rules(name, figures, target, kind, 'f32'))
        self.assertEqual(rules('sub_f32', 'pointwise', load_B=32, widest_load_B=16, instructions=42), [])
        self.assertIn('at most 4 bytes', *rules('exp_f32', 'pointwise', load_B=32, widest_load_B=4))
        self.assertIn('43 instructions', *rules('sub_f32', 'pointwise', load_B=32, widest_load_B=16, instructions=43))
        self.assertIn('24 waves', *rules('softmax_f32', 'row', waves=24))
        loop = {'loop_multiply_adds': 256, 'lds_B': 1, 'loop_instructions': 320}
        self.assertIn('80% of the hottest loop', *rules('mlp/matmul_add', '', **loop))
        self.assertIn('128 registers', *rules('attention/mul_matmul_softmax_matmul', '', vgprs=128))
        self.assertEqual(rules('attention_tiles_f32', '', 'navi31', vgprs=192, waves=8), [])
        self.assertIn('193 registers', *rules('attention_tiles_f32', '', 'navi31', vgprs=193, waves=8))
        self.assertIn('46 instructions', *rules('add_f32', 'pointwise', 'navi31', instructions=46))

    def test_needs_only_shrink(self):
        def said(ratios, **known):
            return list(static.need_rules(ratios, known))
        self.assertEqual(said({'a': 1.5, 'b': 2.0}, b=2.0), [])
        self.assertIn('b: 2.1 instructions', *said({'b': 2.1}, b=2.0))
        self.assertIn('a: 1.6 instructions', *said({'a': 1.6}))
        self.assertIn('take it off', *said({'b': 1.4}, b=2.0))
        self.assertIn('take it off', *said({}, gone=2.0))

    def test_needs_of_a_text(self):
        text = ('\nfloat point(const float x0, const float x1)\n{\n    precise float t2 = x0 * x1;\n'
                '    precise float t3 = fma(t2, x1, -1.0);\n    return t3;\n}\n'
                'STORE_FOUR_OF(f32, 2, false, to[q], point())')
        counts = {'straight load bytes': 32, 'straight store bytes': 16, 'straight instructions': 33}
        self.assertEqual(static.gpu_need.of_kernel('pointwise', text, counts), (33, 8 + 2 * 3 + 2 * 4))
        self.assertIsNone(static.gpu_need.of_kernel('row', text, counts))
        bools = ('\nuvec4 packed(const uvec4 x0, const uvec4 x1)\n{\n    uvec4 t0 = x0;\n'
                 '    uvec4 t2 = t0 ^ x1 ^ ONES;\n    return t2;\n}\n')
        self.assertEqual(static.gpu_need.of_kernel('pointwise', bools, counts), (33, 8 + 2 * 3 + 4 * 2))

    def test_needs_of_fused_kernels(self):
        text = ('\n        if (full) {\n            v0 = load4_f16(A0);\n'
                '            [[unroll]] for (uint c = 0u; c < 4u; c++) {\n'
                '                precise float t2 = v0[c] * t1;\n            }\n            store4_f32(A1, w0);\n'
                '        } else {\n')
        counts = {'straight loads': 1, 'straight stores': 1, 'straight instructions': 33}
        self.assertEqual(static.gpu_need.of_fused(text, counts), (33, 8 + 2 * 2 + 4 * (1 + 1)))
        self.assertIsNone(static.gpu_need.of_fused(text.replace('[[unroll]] ', ''), counts))
        self.assertIsNone(static.gpu_need.of_fused(text, {}))

    def test_needs_of_classes(self):
        def row(cls, text, how):
            return static.gpu_need.stages('\n    // Stage 1.\n' + text + f'block1 = identity_{how}_{cls}();uint j = 0')
        self.assertEqual(row('f32', '    precise float t2 = x0 / x1;\n', 'sum'), [3])
        self.assertEqual(row('f64', '    precise double t2 = x0 / x1;\n', 'max'), [33])
        self.assertEqual(row('i64', '    int64_t t2 = scalar_div(x0, x1);\n', 'prod'), [117])

    def test_peers(self):
        def figures(**values):
            return [values.get(c, 0) for c in static.COLUMNS]
        now = {'catalogue': {'m': figures(waves=8, loop_instructions=280, loop_multiply_adds=256)}, 'rows': {}}
        def said(**values):
            peers = {'columns': list(static.COLUMNS), 'projects': {'p': {'kernels': {
                'x': {'ours': 'm', 'by': 'multiply_adds', 'figures': figures(**{'waves': 4, **values})}}}}}
            return list(static.compare_peers(peers, now))
        self.assertEqual(said(loop_instructions=300, loop_multiply_adds=256), [])
        self.assertIn('1.094 instructions', *said(loop_instructions=260, loop_multiply_adds=256))
        self.assertIn('8 waves', *said(loop_instructions=300, loop_multiply_adds=256, waves=12))

    def test_another_driver_is_skipped(self):
        self.check(lambda r: r.update(driver='Mesa 2', catalogue={}), 77, 'made with Mesa 1, this is Mesa 2')

    def test_a_file_holds_what_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'x.json')
            static.write(REPORT, path)
            self.assertEqual(static.json.loads(path.read_text()), REPORT)
            self.assertIn('\n  "add_f32": [16, 0,', path.read_text())


unittest.main(verbosity=2)
