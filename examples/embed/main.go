// Embed reads lines and prints their vectors, ranks them by how near they are to a text, or compares them with each other, with any model
// folder that package onnx runs. It shows what it found in the folder, and with -bench how fast the model is on this machine.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemark-go/tidemark/embed/onnx"
)

// The exit codes.
const (
	allWell = 0
	failed  = 1 // a line could not be embedded, or nothing could; the other lines were printed
	misused = 2
)

// config is what the flags say.
type config struct {
	model             onnx.TextOptions
	show, pairs       bool
	bench             bool
	benchTime         time.Duration
	near, queryPrompt string
	top               int
	files             []string
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, arguments []string, in io.Reader, out, problems io.Writer) int {
	c, err := configure(arguments, problems)
	if errors.Is(err, flag.ErrHelp) {
		return allWell
	} else if err != nil {
		fmt.Fprintln(problems, "embed:", err)
		return misused
	}
	p := program{config: c, out: bufio.NewWriter(out), problems: problems}
	if err := cmp.Or(p.embed(ctx, in), p.out.Flush()); err != nil {
		p.complain(err)
	}
	return p.code
}

// program is one run.
type program struct {
	config
	out      *bufio.Writer
	problems io.Writer
	code     int
}

// complain tells of what failed, behind what was printed before it.
func (p *program) complain(err error) {
	_ = p.out.Flush()
	fmt.Fprintln(p.problems, "embed:", err)
	p.code = failed
}

// embed loads the model and does what the flags ask for.
func (p *program) embed(ctx context.Context, in io.Reader) error {
	p.model.Progress = p.problems
	model, err := onnx.NewText(ctx, p.model)
	if err != nil {
		return err
	}
	defer model.Close()
	if p.show {
		return p.print(model)
	}
	lines, done, err := open(p.files, in)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case p.bench:
		return p.benchmark(ctx, model, lines)
	case p.near != "":
		return p.rank(ctx, model, lines)
	case p.pairs:
		return p.compare(ctx, model, lines)
	}
	return p.vectors(ctx, model, lines)
}

// open opens the files; without any it is the standard input.
func open(files []string, in io.Reader) (i input, done func(), err error) {
	var opened []io.Closer
	done = func() {
		for _, f := range opened {
			_ = f.Close() // only read from
		}
	}
	if len(files) == 0 {
		return input{in}, done, nil
	}
	for _, name := range files {
		if name == "-" {
			i = append(i, in)
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			done()
			return nil, nil, err
		}
		i, opened = append(i, f), append(opened, f)
	}
	return i, done, nil
}

func configure(arguments []string, problems io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("embed", flag.ContinueOnError)
	f.SetOutput(problems)
	f.Usage = func() {
		fmt.Fprintln(problems, "usage: embed [flags] [FILE ...]\nembeds the lines of files, or of standard input, and prints their vectors as JSON lines")
		f.PrintDefaults()
	}
	f.StringVar(&c.near, "near", "", "print the lines nearest to this text, with their cosine, instead of vectors")
	f.IntVar(&c.top, "top", 10, "with -near: how many lines; 0: all")
	f.StringVar(&c.queryPrompt, "near-prompt", "", "with -near: the name of the prompt before that text; empty: as the lines")
	f.BoolVar(&c.pairs, "pairs", false, "print the cosine of every two lines instead of vectors")
	f.BoolVar(&c.show, "show", false, "print what is found in the model's folder, and end")
	f.BoolVar(&c.bench, "bench", false, "measure how fast the model embeds the lines of the files, or lines of its own")
	f.DurationVar(&c.benchTime, "bench-time", 2*time.Second, "with -bench: how long each way is measured")
	modelFlags(f, &c.model)
	if err := f.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		return c, err
	} else if err != nil {
		return c, errors.New("see embed -help")
	}
	c.files = f.Args()
	ways := 0
	for _, asked := range []bool{c.near != "", c.pairs, c.show, c.bench} {
		if asked {
			ways++
		}
	}
	switch {
	case ways > 1:
		return c, errors.New("-near, -pairs, -show and -bench exclude each other")
	case c.top < 0:
		return c, fmt.Errorf("-top is %d", c.top)
	case c.queryPrompt != "" && c.near == "":
		return c, errors.New("-near-prompt needs -near")
	}
	return c, nil
}

// modelFlags are those that become options of the model.
func modelFlags(f *flag.FlagSet, o *onnx.TextOptions) {
	f.StringVar(&o.Dir, "model", "", "the model's folder; empty: all-MiniLM-L6-v2, downloaded once")
	f.StringVar(&o.File, "file", "", "the ONNX file in it, or model.safetensors; empty: as package onnx chooses")
	f.StringVar(&o.Library, "library", "", "ONNX Runtime's shared library; empty: ONNXRUNTIME_LIB, else downloaded once")
	f.StringVar(&o.Golden, "golden", "", "recorded vectors to check the model with, as this program prints them")
	f.StringVar(&o.Prompt, "prompt", "", `the name of the prompt before every line; empty: the folder's default; "-": none`)
	f.IntVar(&o.Dimensions, "dimensions", 0, "cut vectors to so many components; 0: all")
	f.IntVar(&o.MaxLength, "limit", 0, "lower the limit of tokens; 0: the folder's")
	f.IntVar(&o.Threads, "threads", 0, "threads of a run; 0: one a CPU, at most 4")
	f.IntVar(&o.BatchTokens, "batch-tokens", 0, "most tokens of a run; 0: the default; -1: a text at a time")
	f.BoolVar(&o.Normalize, "normalize", false, "scale vectors to length 1 also where the folder does not ask for it")
	f.Func("pooling", "mean, cls, max, lasttoken or weightedmean; empty: as the folder says", func(s string) error {
		o.Pooling = onnx.Pooling(s)
		return nil
	})
	f.Func("provider", "execution provider: CPU, CUDA, TensorRT, CoreML, OpenVINO or DirectML; empty: CPU", func(s string) error {
		o.Provider.Name = onnx.ProviderName(s)
		return nil
	})
	choice(f, "precision", "fp32, or int8 for 8-bit weights", &o.Precision, map[string]onnx.Precision{"fp32": onnx.FP32, "int8": onnx.Int8})
	choice(f, "long", "what becomes of lines beyond the limit: cut, average or reject", &o.LongTexts,
		map[string]onnx.LongTexts{"cut": onnx.CutLong, "average": onnx.AverageLong, "reject": onnx.RejectLong})
}

// choice adds a flag that is one of some names.
func choice[T any](f *flag.FlagSet, name, usage string, to *T, names map[string]T) {
	f.Func(name, usage, func(s string) error {
		v, known := names[s]
		if !known {
			return errors.New("unknown")
		}
		*to = v
		return nil
	})
}
