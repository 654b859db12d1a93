#!/usr/bin/env python3
"""Writes codec_vectors.txt: payloads and residuals of the codecs q4, q4r, tk1 and tk5, made from the text of
docs/wire_format.md alone.

  make_codec_vectors.py > tests/golden/codec_vectors.txt

Shares no code with the product. One float32 operation is one Python operation, rounded by f32(): for two float32
numbers the double result of + - * / rounds to the float32 result. codec_golden_test.cpp makes the same inputs.
"""

import struct

MASK = 2**64 - 1
SEED, KEY = 24301, 7
# Tensors by length: 19 wide blocks and a tail, 16 wide blocks of almost nothing, a narrow one.
TENSORS = [5000, 4096, 10]
EXPONENTS = [0, -3, -8, -8, 2, -79, -81, -90, -120, 5, -3, -20, -1, 0, -2, -6, -7, -8, -5, -4] + [-89] * 16 + [-3]
IDS = {"q4": 5, "q4r": 6, "tk1": 7, "tk5": 8}
PERCENT = {"tk1": 1, "tk5": 5}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def flush(x):
    return 0.0 if abs(x) < 2.0**-90 else x


def bf16_up(x):
    return (bits(x) + 0xFFFF) >> 16


def half_even(x):
    return round(x)  # Python rounds halves to even


def splitmix64(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return state, z ^ z >> 31


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def layout():
    """Blocks in order: (elements that are parameters, wide?, blocks since the wide run began)."""
    blocks = []
    for count in TENSORS:
        for b in range((count + 255) // 256):
            elements = min(256, count - 256 * b)
            blocks.append((elements, count >= 4096 and elements == 256, b))
    return blocks


def sample(stream):
    """Numbers of several tempers, by block; -0 among them, ties, equal magnitudes, outliers."""
    state, values = stream, []
    for b, (elements, _, _) in enumerate(layout()):
        scale = 2.0 ** (EXPONENTS[b] - 23)
        for i in range(256):
            state, h = splitmix64(state)
            value = ((h >> 40) - 2**23) * scale
            if b % 7 == 1 and h & 15:
                value = -0.0 if i % 2 else 0.0
            elif b % 7 == 2:
                value = ((h >> 59) - 16) * scale * 2.0**19
            elif b % 7 == 3 and not h & 63:
                value *= 64
            values.append(value if i < elements else 0.0)
    return values


def hadamard(v):
    h = 1
    while h < 256:
        v = [f32(v[i] + v[i + h]) if not i & h else f32(v[i - h] - v[i]) for i in range(256)]
        h *= 2
    return v


def signs(block):
    state = SEED ^ KEY * 0x9E3779B97F4A7C15 & MASK ^ block * 0xBF58476D1CE4E5B9 & MASK
    words = []
    for _ in range(4):
        state, z = splitmix64(state)
        words.append(z)
    return [-1.0 if words[i // 64] >> i % 64 & 1 else 1.0 for i in range(256)]


def encode_dense(c, divide, codes_max):
    """One block by its largest magnitude: scale bits, codes, what they decode to."""
    largest = max(abs(x) for x in c)
    if largest < 2.0**-80:
        return 0, [0] * 256, [0.0] * 256
    scale_bits = bf16_up(divide(largest))
    scale = from_bits(scale_bits << 16)
    inverse = f32(1.0 / scale)
    codes = [half_even(f32(x * inverse)) for x in c]
    assert max(abs(q) for q in codes) <= codes_max
    return scale_bits, codes, [f32(q * scale) for q in codes]


def encode_q8(c):
    return encode_dense(c, lambda a: f32(a * f32(1.0 / 127.0)), 127)


def encode_q4(c):
    return encode_dense(c, lambda a: f32(a / 7.0), 7)


def nibbles(codes):
    return bytes((codes[i] & 15) | (codes[i + 1] & 15) << 4 for i in range(0, 256, 2))


def encode_group(c, percent):
    """One group of up to 4,096 elements: scale bits, entries, residual."""
    largest = max(abs(x) for x in c)
    if largest < 2.0**-80:
        return 0, b"", c
    scale_bits = bf16_up(f32(largest * f32(1.0 / 127.0)))
    scale = from_bits(scale_bits << 16)
    inverse = f32(1.0 / scale)
    keep = -(-len(c) * percent // 100)
    chosen = sorted(sorted(range(len(c)), key=lambda i: (-abs(c[i]), i))[:keep])
    entries, residual, after = b"", list(c), 0
    for i in chosen:
        q = half_even(f32(c[i] * inverse))
        if q == 0:
            continue
        gap = i - after
        entries += b"\xff" * (gap // 255) + bytes([gap % 255, q & 255])
        residual[i] = flush(f32(c[i] - f32(q * scale)))
        after = i + 1
    return scale_bits, entries, residual


def encode(codec, update, residual):
    blocks = layout()
    c = [flush(f32(u + r)) for u, r in zip(update, residual)]
    scales, codes, ranges, entries, left = b"", b"", [0], b"", list(c)
    for b, (_, wide, in_run) in enumerate(blocks):
        begin = 256 * b
        block = c[begin : begin + 256]
        if wide and codec in PERCENT:
            if in_run % 16:
                continue
            count = 1
            while count < 16 and blocks[b + count][1] and blocks[b + count][2] == in_run + count:
                count += 1
            end = begin + 256 * count
            scale, more, left[begin:end] = encode_group(c[begin:end], PERCENT[codec])
            entries += more
            ranges.append(len(entries))
        else:
            if not wide:
                scale, q, decoded = encode_q8(block)
                codes += bytes(x & 255 for x in q)
            elif codec == "q4":
                scale, q, decoded = encode_q4(block)
                codes += nibbles(q)
            else:
                d = signs(b)
                y = [f32(x / 16) for x in hadamard([x * s for x, s in zip(block, d)])]
                scale, q, z = encode_q4(y)
                codes += nibbles(q)
                decoded = [f32(x / 16) * s for x, s in zip(hadamard(z), d)]
            left[begin : begin + 256] = [flush(f32(x - v)) for x, v in zip(block, decoded)]
        scales += struct.pack("<H", scale)
    body = scales + bytes(-(32 + len(scales)) % 64) + codes
    if codec in PERCENT:
        body += struct.pack(f"<{len(ranges)}H", *ranges) + entries
    header = struct.pack("<HBBHBBIIQ", 0x5150, 1, IDS[codec], 5, 8, 0, 0, len(blocks), KEY)
    crc = crc32c(header + bytes(8) + body)
    return header + struct.pack("<II", crc, 0) + body, left


def main():
    update, residual = sample(1), sample(2)
    print("# Made by make_codec_vectors.py: codec, CRC-32C of the residual, the payload.")
    for codec in IDS:
        payload, left = encode(codec, update, residual)
        print(f"{codec} {crc32c(struct.pack(f'<{len(left)}f', *left)):08x}")
        text = payload.hex()
        for at in range(0, len(text), 96):
            print(text[at : at + 96])
        print()


if __name__ == "__main__":
    main()
