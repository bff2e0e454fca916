package embed_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tidemark-go/tidemark/embed"
)

type permanentError struct{ error }

func (permanentError) Permanent() bool { return true }

func TestBatchError(t *testing.T) {
	t.Parallel()
	bad := permanentError{errors.New("too long")}
	tests := []struct {
		name      string
		errs      []error
		text      string // "" means no error at all
		permanent bool
	}{
		{"no inputs", nil, "", false},
		{"none failed", []error{nil, nil}, "", false},
		{"one failed", []error{nil, io.ErrUnexpectedEOF}, "embed: 1 of 2 inputs failed, the first, number 1: unexpected EOF", false},
		{"one failed for good", []error{nil, bad, nil}, "embed: 1 of 3 inputs failed, the first, number 1: too long", true},
		{"wrapped, for good", []error{fmt.Errorf("x: %w", bad)}, "embed: 1 of 1 inputs failed, the first, number 0: x: too long", true},
		{"one of two for good", []error{bad, io.EOF}, "embed: 2 of 2 inputs failed, the first, number 0: too long", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := embed.NewBatchError(tt.errs)
			if tt.text == "" {
				if err != nil {
					t.Fatalf("NewBatchError(%v) = %v, want nil", tt.errs, err)
				}
				return
			}
			if err == nil || err.Error() != tt.text {
				t.Fatalf("error is %v, want %q", err, tt.text)
			}
			var items interface{ ItemErrors() []error }
			if !errors.As(err, &items) || len(items.ItemErrors()) != len(tt.errs) {
				t.Fatalf("ItemErrors are not aligned with %v", tt.errs)
			}
			var p interface{ Permanent() bool }
			if !errors.As(err, &p) || p.Permanent() != tt.permanent {
				t.Errorf("Permanent is %v, want %v", p.Permanent(), tt.permanent)
			}
			for i, want := range tt.errs {
				if !errors.Is(items.ItemErrors()[i], want) {
					t.Errorf("item %d is %v, want %v", i, items.ItemErrors()[i], want)
				}
				if want != nil && !errors.Is(err, want) {
					t.Errorf("errors.Is does not find %v", want)
				}
			}
		})
	}
}

func TestBatchErrorZero(t *testing.T) {
	t.Parallel()
	err := &embed.BatchError{Errs: make([]error, 2)}
	if err.Permanent() || err.Error() != "embed: 0 of 2 inputs failed" || err.Unwrap() != nil {
		t.Errorf("zero BatchError: %v, permanent %v, unwraps to %v", err, err.Permanent(), err.Unwrap())
	}
}
