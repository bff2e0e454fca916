//go:build cgo

package onnx

import (
	"reflect"
	"testing"
)

// TestInfo says of folders what their files say, and what the options have changed.
func TestInfo(t *testing.T) {
	t.Parallel()
	built := architectureGoldens(t)[0].folder(t).with("config_sentence_transformers.json", files{
		"prompts": files{"query": "the ", "passage": ""}, "default_prompt_name": "query",
	}).write(t)
	text := open(t, TextOptions{Dir: built, Pooling: CLS, Dimensions: 8, MaxLength: 99, Threads: 1, Normalize: true})
	want := Info{
		Architecture: text.folder.architecture, Graph: built + "/model.safetensors", Built: true, Packed: true, Pooling: CLS, Normalize: true,
		Dimensions: 24, Limit: 99, Prompts: map[string]string{"query": "the ", "passage": ""}, Prompt: "query", Provider: CPU, Threads: 1, BatchTokens: 256,
	}
	if got := text.Info(); !reflect.DeepEqual(got, want) || got.Architecture == "" {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	other, err := text.WithPrompt(NoPrompt)
	if err != nil {
		t.Fatal(err)
	}
	if got := other.Info().Prompt; got != "" {
		t.Errorf("prompt %q", got)
	}

	foreign := lookupFolder().write(t)
	want = Info{
		Architecture: "bert", Graph: foreign + "/model.onnx", Pooling: Mean, Dimensions: testDims, Limit: 16, Provider: CPU, Threads: 1, BatchTokens: 256,
	}
	if got := open(t, TextOptions{Dir: foreign, Threads: 1}).Info(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
