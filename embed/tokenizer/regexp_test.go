package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestMatchersArePrograms: the expressions that are written out as functions match what their programs match.
func TestMatchersArePrograms(t *testing.T) {
	t.Parallel()
	fillTables()
	texts := strings.Fields(tables)[:2000] // hexadecimal numbers, brackets and words
	var all []rune
	for r := rune(1); r < 0x3100; r++ {
		all = append(all, r, ' ', r, r, 'a', '\'', 'S', '1', r, '\n', r)
	}
	texts = append(texts, string(all), "Don't WE'LL x'ſ  12345 \r\n\n  <|startoftext|>a<|endoftext|>", strings.Repeat(" \n", 50)+"x", "a  b   ")
	for expression, m := range matchers {
		p, err := compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		var c columns
		for _, text := range texts {
			chars := decodeText(nil, text)
			if got, want := m.spans(nil, chars, &c), p.spans(nil, chars, &c); !slices.Equal(got, want) {
				t.Errorf("%s: %.50q: %v and %v", expression, text, got, want)
			}
		}
	}
}

// TestFolding: what the original finds with (?i), in each text all of it in turn.
func TestFolding(t *testing.T) {
	t.Parallel()
	fillTables()
	for _, test := range []struct{ expression, text, want string }{
		{"ff", "aﬀb ff FF fF", "ﬀ|ff|FF|fF"},
		{"ffi", "ffi ﬀi ﬃ fﬁ", "ffi|ﬃ"},
		{"f{2}|(f)f", "ﬀ ff", "ff"},
		{"(?:f)f", "ﬀ ff", "ﬀ|ff"},
		{"f(?:f.)", "ﬀx ffx", "ﬀx|ffx"},
		{"f(?i:f)", "ﬀ ff", "ff"},
		{"f(?-i:f)", "ﬀ ff fF", "ff"},
		{"ss", "ß ẞ SS ſs ſſ", "ß|ẞ|SS|ſs|ſſ"},
		{"ß", "ß ẞ SS ss ſs s", "ß|ẞ|SS|ss|ſs"},
		{"[ß]", "ß ẞ SS ss s", "ß|ẞ|SS|ss"},
		{"[^ß]+", "ß ẞ SS s", " | SS s"},
		{"[ﬃﬀ]", "ffi ff", "ff|ff"},
		{`[\w&&ß]x`, "ssx ßx", "ssx|ßx"},
		{"[a-ÿ]", "ss", "s|s"},
		{"i", "i I İ ı", "i|I"},
		{"İ", "i I İ i\u0307 ı", "İ|i\u0307"},
		{"[α-ω]", "α Α σ Σ ς Ω Ω", "α|Α|σ|Σ|ς|Ω|Ω"},
		{"к|ა|𐐨|\u1c89", "к К ა Ა 𐐨 𐐀 \u1c8a", "к|К|ა|Ა|𐐨|𐐀|\u1c8a"},
		{`\p{Lu}`, "a A é É", "A|É"},
		{`[\p{Lu}&&[^A]]`, "a A b B", "b|B"},
		{"[^[^k]s]", "K k K S s", ""},
		{"(?<=k)x", "Kx kx Kx sx", "x|x|x"},
	} {
		p, err := compile("(?i)" + test.expression)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		chars, runes := decodeText(nil, test.text), []rune(test.text)
		var got []string
		for _, s := range p.spans(nil, chars, &columns{}) {
			got = append(got, string(runes[s.from:s.to]))
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s: %q in %q, want %q", test.expression, got, test.text, test.want)
		}
	}
}

// TestProgramsTakeLinearTime counts no time: a matcher that goes back and forth would take hours.
func TestProgramsTakeLinearTime(t *testing.T) {
	t.Parallel()
	fillTables()
	for expression, matches := range map[string]int{
		`\s+$`: 0, `(?:a+)+b`: 0, `a*b|a`: 20_000, `(?>a+)b`: 0, `(?=a+$)a`: 0, `(a|aa|a{3,9})+c|\s+`: 1, `(?:(?:a{1,9}){1,9}){1,9}b`: 0,
	} {
		p, err := compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("a", 20_000) + strings.Repeat(" ", 20_000) + "x"
		if got := p.spans(nil, decodeText(nil, text), &columns{}); len(got) != matches {
			t.Errorf("%s: %d matches, not %d", expression, len(got), matches)
		}
	}
}

// FuzzExpression: an expression is read or refused, and what was read finds matches in order.
func FuzzExpression(f *testing.F) {
	fillTables()
	for expression := range matchers {
		f.Add(expression, "Don't we'll 12345 \r\n  x")
	}
	for _, expression := range []string{
		`[^[:alpha:]\]]|(?i)a{2,}?b++|(?<!ab|\s)\p{^Lu}*+`, `(?>a*)(?!\S)|$`, `[\p{L}&&[^\p{Han}]]+|\x{e9}`, `(?:b(?>a*))*`, `(?=(\d{3})+(?!\d))`,
	} {
		f.Add(expression, "aab 1234 é漢\n")
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		p, err := compile(expression)
		if err != nil || len(text) > 1000 {
			return
		}
		last := -1
		for _, m := range p.spans(nil, decodeText(nil, text), &columns{}) {
			if m.from < last || m.to < m.from || m.from == m.to && m.to == last || m.from == m.to && !p.empty {
				t.Fatalf("a match from %d to %d behind %d", m.from, m.to, last)
			}
			last = m.to
		}
	})
}

func TestExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	fillTables()
	for _, expression := range []string{
		strings.Repeat("(", 10_000), strings.Repeat("[", 4000), strings.Repeat("(?:a", 60) + strings.Repeat(")", 60), strings.Repeat("a", 5000),
		`a{70000}`, `(?:(?:a{1999}){1999}){1999}`, `\`, `\x{ffffffff}`, `\p{`, `[[:`, `[[:]`, `[[:]]`, `a|*`, `)`, strings.Repeat("a++b", 200),
	} {
		if p, err := compile(expression); err == nil || p != nil || errors.Unwrap(err) != nil {
			t.Errorf("%.20q: error %v", expression, err)
		}
	}
}
