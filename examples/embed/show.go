package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-go/tidemark/embed/onnx"
)

// print shows what was found in the model's folder, and how it runs.
func (p *program) print(model *onnx.Text) error {
	i, m := model.Info(), model.Model()
	row := func(name, format string, values ...any) {
		fmt.Fprintf(p.out, "%-13s "+format+"\n", append([]any{name}, values...)...)
	}
	row("model", "%s, %s", m.Name, i.Architecture)
	graph := "runs as it is"
	if i.Built {
		graph = "the graph is built from these weights"
	}
	row("graph", "%s: %s", i.Graph, graph)
	row("texts", "%s", company(i))
	pooling := string(i.Pooling)
	if i.Pooled {
		pooling = "in the graph"
	}
	if i.Layers > 0 {
		pooling += fmt.Sprintf(", layers behind it: %d", i.Layers)
	}
	if i.Normalize {
		pooling += ", scaled to length 1"
	}
	row("pooling", "%s", pooling)
	dimensions := fmt.Sprint(m.Dimensions)
	if m.Dimensions != i.Dimensions {
		dimensions += fmt.Sprintf(" of %d", i.Dimensions)
	}
	row("dimensions", "%s", dimensions)
	row("limit", "%d tokens", i.Limit)
	for _, name := range slices.Sorted(maps.Keys(i.Prompts)) {
		used := ""
		if name == i.Prompt {
			used = ", in use"
		}
		row("prompt", "%s: %q%s", name, i.Prompts[name], used)
	}
	if len(i.Prompts) == 0 {
		row("prompts", "none")
	}
	row("runs on", "%s, %v, %d threads", i.Provider, i.Precision, i.Threads)
	row("fingerprint", "%s", m.Fingerprint)
	return nil
}

// company says how texts of a call run together.
func company(i onnx.Info) string {
	bound := fmt.Sprintf("at most %d tokens a run", i.BatchTokens)
	switch {
	case i.Quantizing != "":
		return "one by one: the graph's " + i.Quantizing + " would let a text's company change its vector"
	case i.BatchTokens < 0:
		return "one by one"
	case i.Packed:
		return "packed, without padding, " + bound
	case i.RunTexts > 0:
		bound = fmt.Sprintf("%d a run, as the graph wants", i.RunTexts)
	}
	if i.RunTokens > 0 {
		return fmt.Sprintf("padded to %d tokens, as the graph wants, %s", i.RunTokens, bound)
	}
	return "padded to the longest, those of like length together, " + bound
}
