package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
)

const (
	maxLine   = 16 << 20 // bytes
	atOnce    = 64       // lines that are embedded in one call
	maxPairs  = 200      // lines that are compared with each other
	shownText = 60       // characters of a line in a table
)

// line is an input line and what became of it.
type line struct {
	number int
	text   string
	vector []float32 // nil: it could not be embedded
}

// input is what lines are read from, one after the other.
type input []io.Reader

// lines calls visit for each line, without its end.
func (in input) lines(visit func(text string) error) error {
	for _, r := range in {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if err := visit(lines.Text()); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return err
		}
	}
	return nil
}

// each embeds the lines of in, a few at a time so that its memory is bounded, and calls do for those that worked, in order.
func (p *program) each(ctx context.Context, e embed.Embedder[string], in input, do func(line) error) error {
	var texts []string
	number := 0
	flush := func() error {
		vectors, errs := embed.Each(ctx, e, texts)
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, text := range texts {
			number++
			if errs[i] != nil {
				p.complain(fmt.Errorf("line %d: %w", number, errs[i]))
			} else if err := do(line{number, text, vectors[i]}); err != nil {
				return err
			}
		}
		texts = texts[:0]
		return nil
	}
	err := in.lines(func(text string) error {
		if texts = append(texts, text); len(texts) < atOnce {
			return nil
		}
		return flush()
	})
	return cmp.Or(err, flush())
}

// vectors prints the lines with their vectors, in the form of embed.Record, so that what is printed is a golden file.
func (p *program) vectors(ctx context.Context, model *onnx.Text, in input) error {
	return p.each(ctx, model, in, func(l line) error {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(l.text); err != nil {
			return err
		}
		vector, err := json.Marshal(l.vector)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "{\"text\":%s,\"vector\":%s}\n", bytes.TrimSpace(text.Bytes()), vector)
		return err
	})
}

// rank prints the lines that are nearest to a text, the nearest first. It keeps no more than it will print.
func (p *program) rank(ctx context.Context, model *onnx.Text, in input) error {
	asking := model
	if p.queryPrompt != "" {
		var err error
		if asking, err = model.WithPrompt(p.queryPrompt); err != nil {
			return err
		}
	}
	query, err := asking.Embed(ctx, []string{p.near})
	if err != nil {
		return fmt.Errorf("the text of -near: %w", err)
	}
	type ranked struct {
		line
		cosine float64
	}
	var nearest []ranked
	keep := func() {
		slices.SortStableFunc(nearest, func(a, b ranked) int { return cmp.Compare(b.cosine, a.cosine) })
		if p.top > 0 && len(nearest) > p.top {
			nearest = slices.Delete(nearest, p.top, len(nearest))
		}
	}
	err = p.each(ctx, model, in, func(l line) error {
		c := cosine(query[0], l.vector)
		l.vector = nil
		nearest = append(nearest, ranked{l, c})
		if len(nearest) >= 2*p.top+1024 {
			keep()
		}
		return nil
	})
	keep()
	for _, r := range nearest {
		fmt.Fprintf(p.out, "%8.4f  %s\n", r.cosine, r.text)
	}
	return err
}

// compare prints the cosine of every two lines, the nearest pairs first.
func (p *program) compare(ctx context.Context, model *onnx.Text, in input) error {
	var all []line
	err := p.each(ctx, model, in, func(l line) error {
		if all = append(all, l); len(all) > maxPairs {
			return fmt.Errorf("-pairs compares %d lines at most", maxPairs)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return errors.New("-pairs needs two lines")
	}
	type pair struct {
		a, b   line
		cosine float64
	}
	var pairs []pair
	for i, a := range all {
		for _, b := range all[i+1:] {
			pairs = append(pairs, pair{a, b, cosine(a.vector, b.vector)})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.cosine, a.cosine) })
	for _, x := range pairs {
		fmt.Fprintf(p.out, "%8.4f  %d %s | %d %s\n", x.cosine, x.a.number, short(x.a.text), x.b.number, short(x.b.text))
	}
	return nil
}

// short is the beginning of a text.
func short(text string) string {
	runes := []rune(strings.TrimSpace(text))
	if len(runes) <= shownText {
		return string(runes)
	}
	return string(runes[:shownText-1]) + "…"
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
