package onnx

import (
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/embed"
)

var (
	// ErrNoCgo is NewText's answer in a program built without cgo: ONNX Runtime is a C library.
	ErrNoCgo = errors.New("onnx: built without cgo, through which ONNX Runtime is reached: " +
		"install a C compiler and build with CGO_ENABLED=1")
	// ErrLibrary says that ONNX Runtime's library is missing, can't be loaded, is too old, or is another than the one in use.
	ErrLibrary = errors.New("onnx: runtime library")
	// ErrModel says that a model folder lacks a file or holds one that contradicts itself, the graph or the other files.
	ErrModel = errors.New("onnx: model folder")
	// ErrUnsupported says that a model folder asks for something that this package does not do; it never guesses instead.
	ErrUnsupported = errors.New("onnx: not supported")
	// ErrDownload says that the pinned packages could not be fetched; the message says what to give by hand.
	ErrDownload = errors.New("onnx: download")
	// ErrProvider says that the execution provider asked for is not in the library, has no device, or can't run all of the graph.
	ErrProvider = errors.New("onnx: execution provider")
	// ErrTooLong says that a text has more tokens than the limit, where such texts are rejected.
	ErrTooLong = errors.New("onnx: the text is too long")
	// ErrVector says that the model answered NaN, an infinity, or zeros where a direction is needed, for one text. It is an
	// embed.ErrVector.
	ErrVector = fmt.Errorf("onnx: %w", embed.ErrVector)
	// ErrClosed is Embed's answer after Close.
	ErrClosed = errors.New("onnx: closed")
)
