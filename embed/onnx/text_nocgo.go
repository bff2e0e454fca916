//go:build !cgo

package onnx

import (
	"context"

	"github.com/tidemark-go/tidemark/embed"
)

// Text stands for the type of the same name in a build with cgo, so that its importers compile; no value of it can be made.
type Text struct{ _ struct{} }

var _ embed.Embedder[string] = (*Text)(nil)

// NewText answers ErrNoCgo.
func NewText(context.Context, TextOptions) (*Text, error) { return nil, ErrNoCgo }

// Embed answers ErrNoCgo.
func (*Text) Embed(context.Context, []string) ([][]float32, error) { return nil, ErrNoCgo }

// Model is empty.
func (*Text) Model() embed.Model { return embed.Model{} }

// Close does nothing.
func (*Text) Close() error { return nil }

// WithPrompt answers ErrNoCgo.
func (*Text) WithPrompt(string) (*Text, error) { return nil, ErrNoCgo }

// Tokens is 0.
func (*Text) Tokens(string) int { return 0 }

// Info is empty.
func (*Text) Info() Info { return Info{} }
