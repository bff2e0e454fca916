// Cdcdump prints change events: from a Pulsar topic, or from files and standard input with a JSON object a line. It is written for a
// person who wants to see what a database has sent, and with -json for programs: one canonical JSON object a line.
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

	"github.com/tidemark-go/tidemark/cdc"
)

// The exit codes.
const (
	allWell = 0
	failed  = 1 // something could not be read; the rest was printed
	misused = 2
)

type config struct {
	json, follow bool
	topic        string
	pulsar       string
	files        []string
	decoder      cdc.Options
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, arguments []string, in io.Reader, out, problems io.Writer) int {
	c, err := configure(arguments, problems)
	if errors.Is(err, flag.ErrHelp) {
		return allWell
	} else if err != nil {
		fmt.Fprintln(problems, "cdcdump:", err)
		return misused
	}
	buffered := bufio.NewWriter(out)
	printer, err := newPrinter(c, buffered)
	if err != nil {
		fmt.Fprintln(problems, "cdcdump:", err)
		return misused
	}
	code := allWell
	complain := func(err error) {
		_ = buffered.Flush() // so that a complaint stands behind what came before it
		fmt.Fprintln(problems, "cdcdump:", err)
		code = failed
	}
	if c.topic != "" {
		err = readTopic(ctx, c, printer, complain)
	} else {
		err = readFiles(c.files, in, printer, complain)
	}
	if err = cmp.Or(err, buffered.Flush()); err != nil {
		complain(err)
	}
	return code
}

func configure(arguments []string, problems io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("cdcdump", flag.ContinueOnError)
	f.SetOutput(problems)
	f.Usage = func() {
		fmt.Fprintln(problems, "usage: cdcdump [flags] [FILE ...]\nprints the change events of a topic, or of JSON lines in files or standard input")
		f.PrintDefaults()
	}
	f.BoolVar(&c.json, "json", false, "print one JSON object a line")
	f.StringVar(&c.topic, "topic", "", "read this Pulsar topic, from its beginning to its end, instead of files")
	f.BoolVar(&c.follow, "follow", false, "with -topic: wait for more at the end")
	f.StringVar(&c.pulsar, "pulsar", cmp.Or(os.Getenv("PULSAR_URL"), "pulsar://localhost:6650"),
		"Pulsar's service URL; PULSAR_URL; a token is taken from PULSAR_JWT_TOKEN")
	f.StringVar(&c.decoder.Placeholder, "placeholder", "", "the connector's unavailable.value.placeholder, if it is not the default")
	f.StringVar(&c.decoder.BinaryMode, "binary", "", "the connector's binary.handling.mode, for logical messages: bytes, base64, base64-url-safe or hex")
	if err := f.Parse(arguments); err != nil {
		return c, cmp.Or(map[bool]error{true: err}[errors.Is(err, flag.ErrHelp)], errors.New("see cdcdump -help"))
	}
	c.files = f.Args()
	switch {
	case c.topic != "" && len(c.files) > 0:
		return c, errors.New("-topic and files exclude each other")
	case c.follow && c.topic == "":
		return c, errors.New("-follow needs -topic")
	}
	return c, nil
}
