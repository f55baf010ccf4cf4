#!/usr/bin/env python3
"""Writes unicode_tables.inc: what BERT's uncased tokenizer must know of Unicode.

usage: make_unicode.py > unicode_tables.inc
"""

import unicodedata


def category(code):
    return unicodedata.category(chr(code))


def fold(code):
    """Decompose, drop the marks, lower: "Å" → "a"."""
    kept = (c for c in unicodedata.normalize("NFD", chr(code)) if unicodedata.category(c) != "Mn")
    return "".join(kept).lower()


codes = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
# Left out: Hangul, which is arithmetic; the compatibility ideographs, which the vocabulary does not
# have in either form; and the few letters (of Indic scripts and music) that become two.
folded = {
    c: ord(fold(c))
    for c in codes
    if not (0xAC00 <= c <= 0xD7A3 or 0xF900 <= c <= 0xFAFF or 0x2F800 <= c <= 0x2FA1F)
    and category(c) != "Mn"
    and len(fold(c)) == 1
    and fold(c) != chr(c)
}


def letter(code):
    """As it reads in the source; escaped where it would read badly or turn the line around."""
    c = chr(code)
    turns = unicodedata.bidirectional(c) in ("R", "AL", "NSM", "AN")
    if c.isprintable() and c not in '"\\' and not turns:
        return c
    return f"\\U{code:08X}"


def fold_table():
    print("// Pairs: a letter, and what it becomes. In order.")
    print('constexpr char32_t kFolds[] =')
    line = ""
    for code in sorted(folded):
        line += letter(code) + letter(folded[code])
        if len(line) > 100:
            print(f'    U"{line}"')
            line = ""
    print(f'    U"{line}";')


def ranges(wanted):
    """(first, last) of runs of codes in the wanted categories."""
    out = []
    for c in codes:
        if category(c) in wanted:
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def range_table(name, rows):
    print(f"constexpr CodeRange {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(f"0x{code:X}" for code in row) + "},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


print(f"// Made by make_unicode.py from Unicode {unicodedata.unidata_version}; not edited by hand.")
print("// clang-format off")
fold_table()
range_table("kNonspacingMarks", ranges({"Mn"}))
range_table("kPunctuation", ranges({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}))
range_table("kInvisibleCodes", ranges({"Cc", "Cf", "Co"}))
