//go:build !cgo

package onnx

import (
	"errors"
	"testing"
)

func TestNoCgo(t *testing.T) {
	text, err := NewText(t.Context(), TextOptions{})
	if text != nil || !errors.Is(err, ErrNoCgo) {
		t.Errorf("%v, %v", text, err)
	}
}
