//go:build cgo

package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// environment is ONNX Runtime in this process. It can exist once, so the first library that loads is kept until the process ends:
// unloading a library whose threads may still run is not safe, and loading it again gains nothing.
var environment struct {
	sync.Mutex
	library string // resolved path; empty until a library has been loaded
}

// loadLibrary makes the environment with the library at path, or checks that it was made with the same one. Errors say where the
// path comes from.
func loadLibrary(path, from string) error {
	resolved, err := filepath.Abs(path)
	if err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	if err != nil {
		return fmt.Errorf("%w: %s (from %s): %w", ErrLibrary, path, from, err)
	}
	if info, err := os.Stat(resolved); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s (from %s) is not a file; give libonnxruntime itself", ErrLibrary, path, from)
	}
	environment.Lock()
	defer environment.Unlock()
	switch environment.library {
	case resolved:
		return nil
	case "":
	default:
		return fmt.Errorf("%w: %s (from %s) was asked for, but this process already runs %s, and can have only one",
			ErrLibrary, resolved, from, environment.library)
	}
	ort.SetSharedLibraryPath(resolved)
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		if strings.Contains(err.Error(), "ORT API base: 2") { // what onnxruntime_go says when the library lacks its API version
			return fmt.Errorf("%w: %s (from %s) is too old: version 1.29 or newer is needed, 1.31.1 is tested", ErrLibrary, resolved, from)
		}
		return fmt.Errorf("%w: %s (from %s): %w", ErrLibrary, resolved, from, oneLine(err))
	}
	environment.library = resolved
	return nil
}

// newSession loads the graph for runs on so many threads.
func newSession(path string, s signature, threads int) (*ort.DynamicAdvancedSession, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("onnx: session options: %w", err)
	}
	defer options.Destroy() //nolint:errcheck // it only frees memory
	for _, set := range []func() error{
		func() error { return options.SetIntraOpNumThreads(threads) },
		func() error { return options.SetInterOpNumThreads(1) },
		// Spinning threads wait for work at full load: beside a consumer that waits most of the time they take its CPU.
		func() error { return options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0") },
		// A memory pattern is kept for every shape that was ever run, and texts come in all lengths.
		func() error { return options.SetMemPattern(false) },
		func() error { return options.SetLogSeverityLevel(ort.LoggingLevelFatal) },
	} {
		if err := set(); err != nil {
			return nil, fmt.Errorf("onnx: session options: %w", err)
		}
	}
	session, err := ort.NewDynamicAdvancedSession(path, s.inputs, []string{s.output}, options)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, oneLine(err))
	}
	return session, nil
}

// oneLine takes the line breaks out of ONNX Runtime's messages.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
