#!/usr/bin/env python3
"""Writes the models that docs/examples/embed.c is tested with: encoders of BERT's shape in ONNX, in the form in which
exporters write them: shapes computed by Shape, Gather and Concat, masks by Expand, layer norms and GELU in parts.

usage: make_embed.py OUT [--weights FOLDER]

Without --weights OUT gets a small model with random weights, a vocabulary, sentences, and what others make of these:
ids.txt by the package tokenizers, vectors.npy by numpy in f64, which onnxruntime has to confirm; and the weights as
others publish them, config.json and model.safetensors. With it, OUT gets
model.onnx alone, of the network in FOLDER (config.json, model.safetensors), confirmed in the same way.
Needs onnx, onnxruntime, numpy, tokenizers and safetensors; run by hand.
"""
import json
import math
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SMALL = {'hidden_size': 32, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'intermediate_size': 64,
         'max_position_embeddings': 64, 'type_vocab_size': 2, 'layer_norm_eps': 1e-12}
LENGTH = 40
WORDS = '''the a an of to and in is was he she it for on with as at by had not are but from or have they which one
you were all her there would their we him been has when who will no more if out so up said what its about
than into them can only other time new some could these two may first then do any like my now over such
our man me even most made after also did many eat ##ing ##ed ##er ##s ##ly ##est ##ness food lunch market
bond fell rise cat dog sleep run walk green house grosse ##strasse koln munchen uber cafe naive resume
elan'''.split()
SENTENCES = [
    'A man is eating food.', 'Somebody has lunch.', 'The bond market fell sharply.', '', ' ', 'the',
    'Walking, running & sleeping: 24/7!', '"Quotes" (and) [brackets] {too} - en–dash — em…',
    'Größe, ÜBER München; naïve café, résumé, Élan', 'Ångström Čapek Łódź ŞIŞLI İstanbul ẞ ß ﬁ',
    'ΑΒΓ Ελληνικά Привет Ёлка', '漢字 and かな and カナ, 東京に行く', '한국 한 한국어 말', 'ａｂｃ fullwidth',
    'emoji 😀👍🏽 and 🇩🇪', 'x' * 100, 'x' * 101, 'é' * 100, 'é' * 101, 'the' + '̈' * 200, 'unknown ☃ word ☃s',
    'soft­hyphen zero​width tab\tand nbsp here　wide', 'control\x01\x02bells\x07 \x7f del',
    'a.b,c;d:e!f?g', '$5 + £4 = €9 < ¥8 ^ 2 ` | ~', '## ##ing [UNK] [CLS] [SEP] [PAD] [MASK]', 'it\'s the dog\'s',
    'the cat ' * 30, 'eating ' + 'z' * 120 + ' food', 'Ǆ ǅ ǆ Ⅷ ⓐ ² ½', 'नमस्ते दुनिया', 'שָׁלוֹם عَرَبِيّ',
    '\U00020000\U0002a6df \uf900 \u8c48 \U0002f800',
]


def make_vocabulary():
    pieces = ['[PAD]', '[unused0]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    pieces += [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    letters = 'abcdefghijklmnopqrstuvwxyz0123456789'
    pieces += ['##' + c for c in letters]
    pieces += list('漢字東京行\u8c48αβγδεηικλνπριвет§£€¥–—…') + ['##' + c for c in 'αβγδεηικλνριвет']
    pieces += ['ᄒ', '##ᅡ', '##ᆫ', '##ᄀ', '##ᅮ', '##ᆨ', 'ł', '##ł', 'ß', '##ß', '##ﬁ', '##漢'] + WORDS
    return list(dict.fromkeys(pieces))


def tokenize(vocabulary, sentences, length):
    """The special pieces are none of the tokenizer's, so that their names in a text are text."""
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    t = Tokenizer(models.WordPiece(ids, unk_token='[UNK]', max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True,
                                              lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return [[ids['[CLS]'], *t.encode(s, add_special_tokens=False).ids[:length - 2], ids['[SEP]']] for s in sentences]


def pad(ids):
    longest = max(map(len, ids))
    rows = np.array([row + [0] * (longest - len(row)) for row in ids], 'i8')
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in ids], 'i8')
    return rows, mask


def pool(hidden, mask):
    m = mask[..., None].astype(hidden.dtype)
    mean = (hidden * m).sum(1) / m.sum(1)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


# --- weights, under the names that they have in BERT

def dense_shapes(config):
    h, wide = config['hidden_size'], config['intermediate_size']
    for i in range(config['num_hidden_layers']):
        at = f'encoder.layer.{i}.'
        for part in ('attention.self.query', 'attention.self.key', 'attention.self.value', 'attention.output.dense'):
            yield at + part, h, h
        yield at + 'intermediate.dense', wide, h
        yield at + 'output.dense', h, wide
    yield 'pooler.dense', h, h


def random_weights(config, n_pieces):
    rng = np.random.default_rng(5)
    h, weights = config['hidden_size'], {}
    for name, rows in (('word', n_pieces), ('position', config['max_position_embeddings']),
                       ('token_type', config['type_vocab_size'])):
        weights[f'embeddings.{name}_embeddings.weight'] = rng.standard_normal((rows, h))
    for name, out, wide in dense_shapes(config):
        weights[name + '.weight'] = rng.standard_normal((out, wide)) * 1.5 / math.sqrt(wide)
        weights[name + '.bias'] = rng.standard_normal(out) * 0.2
    norms = ['embeddings'] + [f'encoder.layer.{i}.{part}' for i in range(config['num_hidden_layers'])
                              for part in ('attention.output', 'output')]
    for name in norms:
        weights[name + '.LayerNorm.weight'] = 1 + 0.2 * rng.standard_normal(h)
        weights[name + '.LayerNorm.bias'] = 0.2 * rng.standard_normal(h)
    return {k: v.astype('f4') for k, v in weights.items()}


# --- the network in numpy, f64

def encode(weights, config, ids, mask):
    w = {k: v.astype('f8') for k, v in weights.items()}
    heads = config['num_attention_heads']
    erf = np.vectorize(math.erf)

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred ** 2).mean(-1, keepdims=True) + config['layer_norm_eps'])
        return centred / scale * w[name + '.LayerNorm.weight'] + w[name + '.LayerNorm.bias']

    def dense(x, name):
        return x @ w[name + '.weight'].T + w[name + '.bias']

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    x = w['embeddings.word_embeddings.weight'][ids] + w['embeddings.position_embeddings.weight'][:ids.shape[1]]
    x = norm(x + w['embeddings.token_type_embeddings.weight'][0], 'embeddings')
    for i in range(config['num_hidden_layers']):
        at = f'encoder.layer.{i}.'
        q, k, v = (split(dense(x, at + 'attention.self.' + part)) for part in ('query', 'key', 'value'))
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]) + np.where(mask, 0, -np.inf)[:, None, None]
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (chances / chances.sum(-1, keepdims=True)) @ v
        seen = seen.transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense(seen, at + 'attention.output.dense'), at + 'attention.output')
        wide = dense(x, at + 'intermediate.dense')
        wide = wide * 0.5 * (1 + erf(wide / math.sqrt(2)))
        x = norm(x + dense(wide, at + 'output.dense'), at + 'output')
    return x


# --- the network in ONNX

class Graph:
    def __init__(self, weights):
        self.nodes, self.constants, self.count = [], dict(weights), 0

    def __call__(self, op, *inputs, **attributes):
        self.count += 1
        out = attributes.pop('out', f'/{op}_{self.count}')
        self.nodes.append(helper.make_node(op, [self.name(i) for i in inputs], [out], f'{op}_{self.count}',
                                           **attributes))
        return out

    def name(self, value):
        if isinstance(value, str):
            return value
        self.count += 1
        tensor = numpy_helper.from_array(np.asarray(value))
        self.nodes.append(helper.make_node('Constant', [], [f'/Constant_{self.count}'], value=tensor))
        return f'/Constant_{self.count}'

    def size(self, value, axis):
        return self('Gather', self('Shape', value), np.array(axis, 'i8'), axis=0)

    def shape(self, *sizes):
        return self('Concat', *(self('Unsqueeze', s, np.array([0], 'i8')) if isinstance(s, str) else np.array([s], 'i8')
                                for s in sizes), axis=0)

    def expand(self, value, shape):
        """As exporters write it, with -1 for a size that stays."""
        kept = self('Mul', self('ConstantOfShape', self('Shape', shape), value=numpy_helper.from_array(
            np.array([1], 'i8'))), np.array(-1, 'i8'))
        ones = self('ConstantOfShape', self('Shape', shape), value=numpy_helper.from_array(np.array([1], 'i8')))
        return self('Expand', value, self('Where', self('Equal', shape, kept), ones, shape))

    def norm(self, x, name, epsilon):
        centred = self('Sub', x, self('ReduceMean', x, axes=[-1]))
        variance = self('ReduceMean', self('Pow', centred, np.float32(2)), axes=[-1])
        scaled = self('Div', centred, self('Sqrt', self('Add', variance, np.float32(epsilon))))
        return self('Add', self('Mul', scaled, name + '.LayerNorm.weight'), name + '.LayerNorm.bias')

    def dense(self, x, name):
        """Weights of products lie transposed, under names of numbers, as exporters leave them."""
        weight = name + '.weight'
        if weight in self.constants:
            self.constants['onnx::' + weight] = np.ascontiguousarray(self.constants.pop(weight).T)
        return self('Add', name + '.bias', self('MatMul', x, 'onnx::' + weight))

    def heads(self, x, heads, width):
        shape = self.shape(self.size(x, 0), self.size(x, 1), heads, width // heads)
        return self('Transpose', self('Reshape', x, shape), perm=[0, 2, 1, 3])


def embeddings(g, config):
    length = g.size('input_ids', 1)
    places = np.arange(config['max_position_embeddings'], dtype='i8')[None]
    places = g('Slice', places, np.array([0], 'i8'), g('Unsqueeze', length, np.array([0], 'i8')), np.array([1], 'i8'),
               np.array([1], 'i8'))
    words = g('Gather', 'embeddings.word_embeddings.weight', 'input_ids')
    types = g('Gather', 'embeddings.token_type_embeddings.weight', 'token_type_ids')
    x = g('Add', g('Add', words, types), g('Gather', 'embeddings.position_embeddings.weight', places))
    return g.norm(x, 'embeddings', config['layer_norm_eps'])


def attention_mask(g):
    batch, length = g.size('attention_mask', 0), g.size('attention_mask', 1)
    wide = g('Unsqueeze', g('Unsqueeze', 'attention_mask', np.array([1], 'i8')), np.array([2], 'i8'))
    wide = g('Cast', g.expand(wide, g.shape(batch, 1, length, length)), to=1)
    hidden = g('Sub', np.float32(1), wide)
    return g('Where', g('Cast', hidden, to=9), np.finfo('f4').min, hidden)


def layer(g, config, x, mask, i):
    at, width, heads = f'encoder.layer.{i}.', config['hidden_size'], config['num_attention_heads']
    q, v = (g.heads(g.dense(x, at + 'attention.self.' + part), heads, width) for part in ('query', 'value'))
    key = g.dense(x, at + 'attention.self.key')
    shape = g.shape(g.size(key, 0), g.size(key, 1), heads, width // heads)
    k = g('Transpose', g('Reshape', key, shape), perm=[0, 2, 3, 1])
    scores = g('Div', g('MatMul', q, k), np.float32(math.sqrt(width // heads)))
    seen = g('Transpose', g('MatMul', g('Softmax', g('Add', scores, mask), axis=-1), v), perm=[0, 2, 1, 3])
    seen = g('Reshape', seen, g.shape(g.size(seen, 0), g.size(seen, 1), width))
    x = g.norm(g('Add', g.dense(seen, at + 'attention.output.dense'), x), at + 'attention.output',
               config['layer_norm_eps'])
    wide = g.dense(x, at + 'intermediate.dense')
    gauss = g('Add', g('Erf', g('Div', wide, np.float32(math.sqrt(2)))), np.float32(1))
    wide = g('Mul', g('Mul', wide, gauss), np.float32(0.5))
    return g.norm(g('Add', g.dense(wide, at + 'output.dense'), x), at + 'output', config['layer_norm_eps'])


def make_model(weights, config):
    g = Graph(weights)
    x, mask = embeddings(g, config), attention_mask(g)
    for i in range(config['num_hidden_layers']):
        x = layer(g, config, x, mask, i)
    g('Identity', x, out='last_hidden_state')
    first = g('Gather', 'last_hidden_state', np.array(0, 'i8'), axis=1)
    g('Tanh', g('Gemm', first, 'pooler.dense.weight', 'pooler.dense.bias', transB=1), out='pooler_output')
    inputs = [helper.make_tensor_value_info(n, 7, ['batch', 'sequence'])
              for n in ('input_ids', 'attention_mask', 'token_type_ids')]
    outputs = [helper.make_tensor_value_info('last_hidden_state', 1, ['batch', 'sequence', config['hidden_size']]),
               helper.make_tensor_value_info('pooler_output', 1, ['batch', config['hidden_size']])]
    constants = [numpy_helper.from_array(v, k) for k, v in g.constants.items()]
    graph = helper.make_graph(g.nodes, 'encoder', inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)], ir_version=7)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def confirm(model, weights, config, ids):
    """The vectors by numpy, once onnxruntime agrees; the same for each sentence alone as for all."""
    rows, mask = pad(ids)
    want = pool(encode(weights, config, rows, mask), mask)
    feeds = {'input_ids': rows, 'attention_mask': mask, 'token_type_ids': 0 * rows}
    got = ort.InferenceSession(model).run(['last_hidden_state'], feeds)[0]
    apart = np.abs(pool(got, mask) - want).max()
    alone = max(np.abs(pool(encode(weights, config, np.array([row]), np.ones((1, len(row)))), np.ones((1, len(row))))
                       - want[i]).max() for i, row in enumerate(ids))
    print(f'onnxruntime differs by {apart:.2g}, sentences alone by {alone:.2g}')
    assert apart < 1e-5 and alone < 1e-12
    return want


def main(out, weights_at=None):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    if weights_at:
        from safetensors.numpy import load_file
        config = json.loads((pathlib.Path(weights_at) / 'config.json').read_text())
        weights = {k: v for k, v in load_file(pathlib.Path(weights_at) / 'model.safetensors').items()
                   if v.dtype == np.float32}
        ids = [[101, 2019, 2742, 102], [101, 1037, 3232, 2003, 2062, 2084, 2048, 1012, 102]]
    else:
        vocabulary, config = make_vocabulary(), SMALL
        weights = random_weights(config, len(vocabulary))
        ids = tokenize(vocabulary, SENTENCES, LENGTH)
    model = make_model(weights, config)
    want = confirm(model, weights, config, ids)
    (out / 'model.onnx').write_bytes(model)
    if weights_at:
        return
    (out / 'vocab.txt').write_text('\n'.join(vocabulary) + '\n')
    (out / 'sentences.txt').write_text(''.join(s + '\n' for s in SENTENCES), newline='\n')
    (out / 'ids.txt').write_text(''.join(' '.join(map(str, row)) + '\n' for row in ids))
    np.save(out / 'vectors.npy', want)
    from safetensors.numpy import save_file
    save_file(weights, out / 'model.safetensors')
    (out / 'config.json').write_text(json.dumps({**config, 'hidden_act': 'gelu'}, indent=1))
    unknown = sum(row.count(vocabulary.index('[UNK]')) for row in ids)
    print(f'{len(vocabulary)} pieces, {len(SENTENCES)} sentences, {sum(map(len, ids))} ids, {unknown} unknown')


if __name__ == '__main__':
    main(sys.argv[1], *(sys.argv[3:] if '--weights' in sys.argv else []))
