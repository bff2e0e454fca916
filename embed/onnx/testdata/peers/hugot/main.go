// Hugot embeds the lines of a file with hugot, and prints its figures as JSON:
//
//	hugot go MODEL TEXTS           on hugot's own runtime, which is GoMLX's simplego
//	hugot ort MODEL TEXTS LIBRARY  on ONNX Runtime, whose libonnxruntime.so lies in the folder LIBRARY: built with -tags ORT
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/options"
	"github.com/knights-analytics/hugot/pipelines"

	"github.com/tidemark-go/tidemark/embed/onnx/testdata/peers"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hugot:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) < 3 || args[0] == "ort" && len(args) < 4 {
		return errors.New("usage: hugot go|ort MODEL TEXTS [LIBRARY]")
	}
	session, err := open(args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Destroy()) }()
	pipeline, err := hugot.NewPipeline(session, hugot.FeatureExtractionConfig{
		ModelPath: args[1], Name: "texts", OnnxFilename: "model.onnx",
		Options: []hugot.FeatureExtractionOption{pipelines.WithNormalization()},
	})
	if err != nil {
		return err
	}
	texts, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	callers := 64
	if args[0] == "go" { // a text takes a quarter of a second
		callers = 1
	}
	figures, err := peers.Measure(strings.Split(string(texts), "\n"), callers, func(batch []string) ([][]float32, error) {
		out, err := pipeline.RunPipeline(batch)
		if err != nil {
			return nil, err
		}
		return out.Embeddings, nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

func open(args []string) (*hugot.Session, error) {
	if args[0] == "go" {
		return hugot.NewGoSession()
	}
	// A thread a run, as its README advises for throughput.
	return hugot.NewORTSession(options.WithOnnxLibraryPath(args[3]), options.WithIntraOpNumThreads(1), options.WithInterOpNumThreads(1))
}
