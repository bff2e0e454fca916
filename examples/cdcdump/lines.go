package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/cdc"
)

// maxLine is the longest line, in bytes, that is read: some more than the largest message that a decoder takes by default.
const maxLine = 64 << 20

// readFiles prints the events of files, of standard input where none is named or one is named "-". A line that is bad is complained
// about, and the others go on.
func readFiles(names []string, in io.Reader, p *printer, complain func(error)) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if err := readFile(name, in, p, complain); err != nil {
			return err
		}
	}
	return nil
}

// readFile returns an error only where nothing more can be printed.
func readFile(name string, in io.Reader, p *printer, complain func(error)) error {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			complain(err)
			return nil
		}
		defer file.Close()
		in = file
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		line, err := nextLine(lines)
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark
		}
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			var record cdc.Record
			if record, err = parseLine(line); err == nil {
				err = p.print(record)
			}
		}
		var broken *outputError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &broken):
			return err
		case err != nil:
			complain(fmt.Errorf("%s, line %d: %w", source(name), n, err))
		}
		var unreadable *inputError
		if errors.As(err, &unreadable) {
			return nil
		}
		if lines.Buffered() == 0 {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
}

func source(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// inputError is one after which the input cannot be read on.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

var errLongLine = fmt.Errorf("longer than %d bytes", maxLine)

// nextLine returns the next line without its end. One that is too long is skipped to its end. The last may lack its line feed.
func nextLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0 && !long:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, &inputError{err}
		case long:
			return nil, errLongLine
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}

// parseLine reads {"topic","key","value","properties"}. Key and value are text, or JSON as it is; null or absent are none.
func parseLine(line []byte) (cdc.Record, error) {
	if !utf8.Valid(line) {
		return cdc.Record{}, errors.New("not UTF-8")
	}
	var parts struct {
		Topic      string            `json:"topic"`
		Key        json.RawMessage   `json:"key"`
		Value      json.RawMessage   `json:"value"`
		Properties map[string]string `json:"properties"`
	}
	if line = bytes.TrimSpace(line); line[0] != '{' {
		return cdc.Record{}, errors.New("no JSON object")
	}
	if err := json.Unmarshal(line, &parts); err != nil {
		return cdc.Record{}, plainJSONError(err)
	}
	key, err := text("key", parts.Key)
	if err != nil {
		return cdc.Record{}, err
	}
	value, err := text("value", parts.Value)
	if err != nil {
		return cdc.Record{}, err
	}
	if parts.Key == nil && parts.Value == nil {
		return cdc.Record{}, errors.New("neither key nor value")
	}
	return cdc.Record{Topic: parts.Topic, Key: string(key), Value: value, Properties: parts.Properties}, nil
}

// plainJSONError says where, and never what: the line may hold anybody's data.
func plainJSONError(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON, at byte %d", syntax.Offset)
	case errors.As(err, &typ):
		return fmt.Errorf("%s is a JSON %s", typ.Field, typ.Value)
	}
	return errors.New("not JSON")
}

// text returns what a message's key or value is: the content of a string, or the text of an object.
func text(name string, value json.RawMessage) ([]byte, error) {
	switch {
	case len(value) == 0 || string(value) == "null":
		return nil, nil
	case value[0] == '{':
		return value, nil
	case value[0] == '"':
		var content string
		err := json.Unmarshal(value, &content)
		return []byte(content), err
	}
	return nil, fmt.Errorf("%s is no string, object or null", name)
}
