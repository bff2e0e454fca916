package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
)

const (
	benchLines = 4096 // lines that are measured with, at most
	benchBatch = 32
)

// benchmark measures the ways in which programs embed: batches in the order of the lines, and callers with one text each through a Batcher.
func (p *program) benchmark(ctx context.Context, model *onnx.Text, in input) error {
	texts, err := p.benchTexts(in)
	if err != nil {
		return err
	}
	tokens, tokenizing := 0, time.Now()
	for _, text := range texts {
		tokens += model.Tokens(text)
	}
	perText := time.Since(tokenizing) / time.Duration(len(texts))
	if err := p.print(model); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "\n%d texts of %.1f tokens; the tokenizer takes %v a text\n\n", len(texts), float64(tokens)/float64(len(texts)), perText.Round(100*time.Nanosecond))
	fmt.Fprintf(p.out, "%-24s %10s %12s %10s %10s\n", "", "texts/s", "tokens/s", "p50", "p99")
	batcher := embed.NewBatcher(model, embed.BatcherOptions{MaxTokens: max(model.Info().BatchTokens, 0)})
	for _, way := range []struct {
		name           string
		e              embed.Embedder[string]
		callers, texts int
	}{
		{"batches of 32", model, 1, benchBatch},
		{"one by one", model, 1, 1},
		{"8 callers, Batcher", batcher, 8, 1},
		{"64 callers, Batcher", batcher, 64, 1},
	} {
		l, err := measure(ctx, p.benchTime, way.e, texts, way.callers, way.texts)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "%-24s %10.1f %12.0f %10v %10v\n", way.name, l.perSecond, l.perSecond*float64(tokens)/float64(len(texts)), l.at(50), l.at(99))
		if err := p.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// benchTexts reads the lines of files, or makes some where none are named.
func (p *program) benchTexts(in input) ([]string, error) {
	var texts []string
	if len(p.files) > 0 {
		err := in.lines(func(text string) error {
			if len(texts) < benchLines {
				texts = append(texts, text)
			}
			return nil
		})
		if err == nil && len(texts) == 0 {
			err = errors.New("no line to measure with")
		}
		return texts, err
	}
	words := strings.Fields("river cloud stone lamp green table the of and quickly under bridge early market seven")
	for i := range 256 { // 6 to 58 words
		text := make([]string, 6+i*37%53)
		for j := range text {
			text[j] = words[(i*7+j*j)%len(words)]
		}
		texts = append(texts, strings.Join(text, " "))
	}
	return texts, nil
}

// load is what a way was measured at.
type load struct {
	perSecond float64
	took      []time.Duration // of the calls, sorted
}

func (l load) at(percent int) time.Duration {
	return l.took[min(len(l.took)*percent/100, len(l.took)-1)].Round(10 * time.Microsecond)
}

// measure lets callers embed texts, so many a call, in turns until the time is over.
func measure(ctx context.Context, atLeast time.Duration, e embed.Embedder[string], texts []string, callers, size int) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := slices.Collect(slices.Chunk(texts, size))
	if _, err := e.Embed(ctx, batches[0]); err != nil { // warm
		return load{}, err
	}
	var mu sync.Mutex
	var l load
	next, done := 0, 0
	began := time.Now()
	take := func() []string {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || next >= callers && time.Since(began) > atLeast {
			return nil
		}
		next++
		return batches[(next-1)%len(batches)]
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for batch := take(); batch != nil; batch = take() {
				start := time.Now()
				if _, err := e.Embed(ctx, batch); err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				l.took = append(l.took, time.Since(start))
				done += len(batch)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	l.perSecond = float64(done) / time.Since(began).Seconds()
	slices.Sort(l.took)
	return l, context.Cause(ctx)
}
