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
