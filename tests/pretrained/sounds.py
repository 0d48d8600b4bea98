"""A sound with two stretches that a detector of speech takes for speech: vowels of a synthetic voice, and noise between
them; as 16-bit samples of 16 kHz, the same on every machine. And WAV files."""
import math
import wave

RATE = 16000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
STRETCHES = ((1.0, 2.3), (3.2, 4.4))  # seconds
LENGTH = 5.0


def noise(n):
    state, out = 12345, []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) % 2 ** 32
        out.append(state / 2 ** 31 - 1)
    return out


def formants(hz, vowel):
    """How much of a frequency comes through the throat."""
    return sum(weight / (1 + ((hz - peak) / (60 + 0.04 * peak)) ** 2)
               for peak, weight in zip(vowel, (1, 0.6, 0.3)))


def voice(seconds):
    """Syllables of 0.2 s: a tone that falls, with the formants of a vowel, and a swell."""
    out, phase = [], 0.0
    for i in range(int(seconds * RATE)):
        t = i / RATE
        syllable, within = divmod(t, 0.2)
        pitch = 135 - 25 * t / seconds + 6 * math.sin(2 * math.pi * 5 * t)
        phase += pitch / RATE
        if i % 80 == 0:  # the throat moves slowly
            k = int(syllable)
            here, there = VOWELS[k % 5], VOWELS[(k + 2) % 5]
            mixed = [a + (b - a) * within / 0.2 for a, b in zip(here, there)]
            weights = [formants(h * pitch, mixed) / h ** 0.5 for h in range(1, 29)]
        swell = math.sin(math.pi * min(within / 0.16, 1)) ** 0.7 if within < 0.16 else 0
        out.append(swell * sum(w * math.sin(2 * math.pi * h * phase) for h, w in enumerate(weights, 1)))
    top = max(map(abs, out))
    return [v / top for v in out]


def sound():
    samples = [0.003 * v for v in noise(int(LENGTH * RATE))]
    for begin, end in STRETCHES:
        for i, v in enumerate(voice(end - begin)):
            samples[int(begin * RATE) + i] += 0.5 * v
    return [round(32767 * v) for v in samples]


def write_wav(path, samples, rate=RATE, channels=1):
    with wave.open(str(path), 'wb') as f:
        f.setnchannels(channels)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(b''.join(v.to_bytes(2, 'little', signed=True) for v in samples))
