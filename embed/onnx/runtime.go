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

// session is a graph that ONNX Runtime has loaded, with its inputs in their order.
type session struct {
	*ort.DynamicAdvancedSession
	inputs []value
}

// newSession loads the graph at path, or the one that was built from the weights there.
func newSession(path string, g openedGraph, output string, o TextOptions) (session, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return session{}, fmt.Errorf("onnx: session options: %w", err)
	}
	defer options.Destroy() //nolint:errcheck // it only frees memory
	if err := configure(options, o); err != nil {
		return session{}, fmt.Errorf("onnx: session options: %w", err)
	}
	if err := provide(options, o.Provider); err != nil {
		return session{}, fmt.Errorf("%w: %s: %w", ErrProvider, o.Provider.Name, oneLine(err))
	}
	s := session{inputs: g.inputs}
	if g.model == nil {
		s.DynamicAdvancedSession, err = ort.NewDynamicAdvancedSession(path, names(s.inputs), []string{output}, options)
	} else {
		err = options.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", g.folder)
		if err == nil {
			s.DynamicAdvancedSession, err = ort.NewDynamicAdvancedSessionWithONNXData(g.model, names(s.inputs), []string{output}, options)
		}
	}
	if err != nil && o.Provider.Name != CPU && strings.Contains(err.Error(), "fallback") {
		return session{}, fmt.Errorf("%w: %s: %w", ErrProvider, o.Provider.Name, oneLine(err))
	}
	if err != nil {
		return session{}, fmt.Errorf("%w: %s: %w", ErrModel, path, oneLine(err))
	}
	return s, nil
}

func configure(options *ort.SessionOptions, o TextOptions) error {
	// Between two operators a thread is not idle for long, and waking it takes longer than the operator after a small one. Beyond that,
	// spinning threads take the CPU from a consumer beside them that waits most of the time.
	stop, spin := "1", "100"
	if o.Spin {
		stop, spin = "0", "1000"
	}
	return errors.Join(
		options.SetIntraOpNumThreads(o.Threads),
		options.SetInterOpNumThreads(1),
		options.AddSessionConfigEntry("session.force_spinning_stop", stop), // at the end of a run
		options.AddSessionConfigEntry("session.intra_op.spin_duration_us", spin),
		options.SetCpuMemArena(!o.NoArena),
		// A memory pattern is kept for every shape that was ever run, and texts come in all lengths.
		options.SetMemPattern(false),
		options.SetLogSeverityLevel(ort.LoggingLevelFatal),
	)
}

// provide asks for the execution provider, and that nothing is left to the CPU.
func provide(options *ort.SessionOptions, p Provider) error {
	if p.Name == CPU {
		return nil
	}
	if !p.AllowCPU {
		if err := options.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1"); err != nil {
			return err
		}
	}
	switch p.Name {
	case CUDA:
		c, err := ort.NewCUDAProviderOptions()
		if err != nil {
			return err
		}
		defer c.Destroy() //nolint:errcheck // it only frees memory
		if err := c.Update(p.settings()); err != nil {
			return err
		}
		return options.AppendExecutionProviderCUDA(c)
	case TensorRT:
		c, err := ort.NewTensorRTProviderOptions()
		if err != nil {
			return err
		}
		defer c.Destroy() //nolint:errcheck // it only frees memory
		if err := c.Update(p.settings()); err != nil {
			return err
		}
		return options.AppendExecutionProviderTensorRT(c)
	case CoreML:
		return options.AppendExecutionProviderCoreMLV2(p.settings())
	case OpenVINO:
		return options.AppendExecutionProviderOpenVINO(p.settings())
	}
	return options.AppendExecutionProviderDirectML(p.Device)
}

// oneLine takes the line breaks out of ONNX Runtime's messages.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
