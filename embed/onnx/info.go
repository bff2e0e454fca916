package onnx

// Info says what NewText found in a model's folder, and how it runs it.
type Info struct {
	// Architecture is model_type of config.json, such as "bert"; empty where that says nothing.
	Architecture string
	// Graph is the ONNX file that runs, or model.safetensors or its index, of whose weights the graph was built.
	Graph string
	// Built says that the graph was built from weights.
	Built bool
	// Packed says that the texts of a run lie in one row without padding. Else those of like length run together, padded to the longest.
	Packed bool
	// Quantizing is the operator of an ONNX file's graph through which a text's company would change its vector, so that texts run one by
	// one; empty where there is none.
	Quantizing string
	// RunTexts and RunTokens are how many texts each run has, and how many tokens each of them is padded to, where an ONNX file's graph fixes
	// them; 0: it does not. Where there are fewer texts, the rest of the run is computed for nothing.
	RunTexts, RunTokens int
	// Pooled says that the graph itself makes one vector of a text's tokens, so that Pooling is not used.
	Pooled    bool
	Pooling   Pooling
	Layers    int  // between the pooling and the last Normalize
	Normalize bool // vectors are scaled to length 1
	// Dimensions are the model's; Model().Dimensions are those that are left of them.
	Dimensions int
	// Limit is how many tokens a text may have, special tokens included.
	Limit int
	// Prompts are the texts of the prompts by name, Prompt is the name of the one in use, empty for none.
	Prompts map[string]string
	Prompt  string

	Precision   Precision
	Provider    ProviderName
	Threads     int // of a run
	BatchTokens int // bound of a run; -1: a text at a time
}
