//go:build cgo

package onnx

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// specials are how many special tokens the tokenizer puts before and behind a text.
type specials struct{ before, behind int }

func findSpecials(t *tokenizer.Tokenizer) (specials, error) {
	e, err := t.Encode("a")
	if err != nil { // a vocabulary without a word for it: the tokens of the empty text stand before
		e, err = t.Encode("")
	}
	if err != nil {
		return specials{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	var s specials
	for s.before < len(e.IDs) && e.Offsets[s.before] == [2]int{} {
		s.before++
	}
	for s.before+s.behind < len(e.IDs) && e.Offsets[len(e.IDs)-1-s.behind] == [2]int{} {
		s.behind++
	}
	return s, nil
}

// encode answers the inputs of a text of a call, and tells the metrics.
func (t *Text) encode(ctx context.Context, text string, i int) ([]input, error) {
	start := time.Now()
	inputs, long, err := t.inputs(text, i)
	if err != nil {
		return nil, itemerror.Permanent(fmt.Errorf("onnx: %w", err))
	}
	t.telemetry.tokenized(ctx, time.Since(start), long && t.options.LongTexts == CutLong)
	return inputs, nil
}

// inputs answers the inputs of a text: one, or several where it is averaged. long says that it is longer than the limit.
func (t *Text) inputs(text string, i int) (inputs []input, long bool, err error) {
	limit := t.model.MaxLength
	text = t.prompt.text + text
	room := min(len(text)/3, limit) + 8
	e := tokenizer.Encoding{IDs: make([]int32, 0, room), TypeIDs: make([]int32, 0, room), Offsets: make([][2]int, 0, room)}
	if e, err = t.tokenizer.AppendEncode(e, text, limit+1); err != nil {
		return nil, false, err
	}
	parts := []tokenizer.Encoding{e}
	if long = len(e.IDs) > limit; long {
		switch t.options.LongTexts {
		case RejectLong:
			return nil, long, fmt.Errorf("%w: the limit is %d tokens", ErrTooLong, limit)
		case AverageLong:
			if e, err = t.tokenizer.Encode(text); err != nil {
				return nil, long, err
			}
			parts = t.split(e, limit)
		default:
			// Once more, since of two texts in one template each would have lost a token.
			if parts[0], err = t.tokenizer.AppendEncode(tokenizer.Encoding{}, text, limit); err != nil {
				return nil, long, err
			}
		}
	}
	for _, p := range parts {
		if err := t.check(p); err != nil {
			return nil, long, err
		}
		inputs = append(inputs, input{i, p.IDs, p.TypeIDs, t.prompt.skip})
	}
	return inputs, long, nil
}

func (t *Text) check(e tokenizer.Encoding) error {
	if len(e.IDs) <= t.prompt.skip { // blank, and the folder's tokenizer adds no special tokens
		return fmt.Errorf("%w: a text without any token", ErrUnsupported)
	}
	if id := slices.Max(e.IDs); t.folder.vocabulary > 0 && int(id) >= t.folder.vocabulary {
		return fmt.Errorf("%w: the tokenizer's id %d is outside of config.json's vocabulary of %d", ErrModel, id, t.folder.vocabulary)
	}
	return nil
}

// split cuts a long text between tokens into parts of like length, with the special tokens around each and the prompt before it.
func (t *Text) split(e tokenizer.Encoding, limit int) []tokenizer.Encoding {
	s := t.specials
	end := len(e.IDs) - s.behind
	again := t.prompt.encoding // before each part but the first, which has it
	again.IDs, again.TypeIDs = inside(again.IDs, s), inside(again.TypeIDs, s)
	length := len(again.IDs)
	room := limit - s.before - s.behind - length
	own := end - s.before - length // the text's tokens
	n := (own + room - 1) / room
	var parts []tokenizer.Encoding
	for k := range n {
		from, to := s.before+length+own*k/n, s.before+length+own*(k+1)/n
		cut := func(all, prompt []int32) []int32 {
			if k == 0 {
				prompt = all[s.before : s.before+length]
			}
			return slices.Concat(all[:s.before], prompt, all[from:to], all[end:])
		}
		parts = append(parts, tokenizer.Encoding{IDs: cut(e.IDs, again.IDs), TypeIDs: cut(e.TypeIDs, again.TypeIDs)})
	}
	return parts
}

func inside(all []int32, s specials) []int32 {
	if len(all) < s.before+s.behind {
		return nil
	}
	return all[s.before : len(all)-s.behind]
}
