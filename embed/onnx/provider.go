package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ProviderName names one of ONNX Runtime's execution providers.
type ProviderName string

// The execution providers. All but the CPU's need a library that was built with them: TextOptions.Library.
const (
	CPU      ProviderName = "CPU"
	CUDA     ProviderName = "CUDA"
	TensorRT ProviderName = "TensorRT"
	CoreML   ProviderName = "CoreML"
	OpenVINO ProviderName = "OpenVINO"
	DirectML ProviderName = "DirectML"
)

var providerNames = []ProviderName{CPU, CUDA, TensorRT, CoreML, OpenVINO, DirectML}

// Provider is what runs a graph. The zero value is the CPU. A provider that the library lacks, that finds no device, or that would leave
// a part of the graph to the CPU is an error of NewText, ErrProvider: never a slow success.
type Provider struct {
	// Name is the execution provider. Empty: CPU.
	Name ProviderName
	// Device is the number of the device, for CUDA, TensorRT and DirectML.
	Device int
	// MemoryLimit bounds in bytes the arena on the device, for CUDA, and the workspace, for TensorRT. 0: no bound of ours.
	MemoryLimit int64
	// EngineCache is a folder where TensorRT keeps the engines that it builds, which takes minutes; they fit one model, one device and
	// one version. Empty: none are kept.
	EngineCache string
	// Options are further options of the provider, by ONNX Runtime's names for them. CPU and DirectML have none. CUDA graphs
	// (enable_cuda_graph, trt_cuda_graph_enable) are refused: they need inputs at fixed places of the device's memory, which
	// onnxruntime_go 1.34 cannot bind.
	Options map[string]string
	// AllowCPU lets the CPU run the parts of the graph that the provider can't.
	AllowCPU bool
}

// graphOptions make CUDA graphs. ONNX Runtime replays one without reading the inputs of a run, and onnxruntime_go binds no memory of a device.
var graphOptions = []string{"enable_cuda_graph", "trt_cuda_graph_enable"}

func (p Provider) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("onnx: TextOptions.Provider."+format, args...))
		}
	}
	is := func(names ...ProviderName) bool { return slices.Contains(names, p.Name) }
	check(is(providerNames...), "Name is %q; known are %q", p.Name, providerNames)
	check(p.Device == 0 || p.Device > 0 && is(CUDA, TensorRT, DirectML), "Device is %d for %s", p.Device, p.Name)
	check(p.MemoryLimit == 0 || p.MemoryLimit > 0 && is(CUDA, TensorRT), "MemoryLimit is %d for %s", p.MemoryLimit, p.Name)
	check(p.EngineCache == "" || is(TensorRT), "EngineCache is for TensorRT, not for %s", p.Name)
	check(len(p.Options) == 0 || !is(CPU, DirectML), "Options: %s has none", p.Name)
	for _, name := range graphOptions {
		check(p.Options[name] == "" || p.Options[name] == "0", "Options: %s: what a graph of CUDA has captured is run again on the same places "+
			"of the device's memory, which can't be bound here: later texts would get the vectors of the first", name)
	}
	return errors.Join(errs...)
}

// settings are the options of the provider in ONNX Runtime's names, the caller's own last.
func (p Provider) settings() map[string]string {
	s := map[string]string{}
	switch p.Name {
	case CUDA:
		s["device_id"] = fmt.Sprint(p.Device)
		s["arena_extend_strategy"] = "kSameAsRequested" // doubling, the default, takes up to twice what is needed
		if p.MemoryLimit > 0 {
			s["gpu_mem_limit"] = fmt.Sprint(p.MemoryLimit)
		}
	case TensorRT:
		s["device_id"] = fmt.Sprint(p.Device)
		if p.MemoryLimit > 0 {
			s["trt_max_workspace_size"] = fmt.Sprint(p.MemoryLimit)
		}
		if p.EngineCache != "" {
			s["trt_engine_cache_enable"], s["trt_engine_cache_path"] = "1", p.EngineCache
		}
	}
	maps.Copy(s, p.Options)
	return s
}
