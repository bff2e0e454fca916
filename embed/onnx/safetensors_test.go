//go:build cgo

package onnx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// safetensorsFile is a file of random tensors of float32.
func safetensorsFile(tb testing.TB, shapes map[string][]int) []byte {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	header, numbers := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		from, n := len(numbers), 1
		for _, d := range shapes[name] {
			n *= d
		}
		for range n {
			x := random.NormFloat64() * 0.3
			if strings.HasSuffix(name, "LayerNorm.weight") {
				x++
			}
			numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(float32(x)))
		}
		header[name] = files{"dtype": "F32", "shape": shapes[name], "data_offsets": []int{from, len(numbers)}}
	}
	return safetensors(tb, header, numbers)
}

// split spreads the tensors of a model folder's file over so many files with an index, as transformers saves large models.
func split(tb testing.TB, whole files, parts int) files {
	tb.Helper()
	file := whole["model.safetensors"].([]byte)
	table, n, err := readTable(bytes.NewReader(file), int64(len(file)), maxHeader)
	if err != nil || len(table) < parts {
		tb.Fatalf("%d tensors, error %v", len(table), err)
	}
	headers, numbers, of := make([]files, parts), make([][]byte, parts), files{}
	for i, name := range slices.Sorted(maps.Keys(table)) {
		t, part := table[name], i%parts
		if headers[part] == nil {
			headers[part] = files{}
		}
		from := len(numbers[part])
		numbers[part] = append(numbers[part], file[t.from:][:t.size]...)
		headers[part][name] = files{"dtype": t.dtype, "shape": append([]int64{}, t.shape...), "data_offsets": []int{from, len(numbers[part])}}
		of[name] = partName(part, parts)
	}
	f := whole.with("model.safetensors", nil).with(indexFile, files{"metadata": files{"total_size": int64(len(file)) - n - 8}, "weight_map": of})
	for part := range parts {
		f = f.with(partName(part, parts), safetensors(tb, headers[part], numbers[part]))
	}
	return f
}

func partName(part, parts int) string {
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", part+1, parts)
}

func safetensors(tb testing.TB, header map[string]any, numbers []byte) []byte {
	tb.Helper()
	head := mustJSON(tb, header)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, numbers)
}

// TestWeightsInSeveralFiles: vectors do not change by a bit when the weights lie in several files, also behind links to several folders.
func TestWeightsInSeveralFiles(t *testing.T) {
	t.Parallel()
	texts := []string{"red", "the blue cup", "", "a cup of the sea"}
	for _, g := range architectureGoldens(t) {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			whole := g.folder(t)
			for _, precision := range []Precision{FP32, Int8} {
				want := open(t, TextOptions{Dir: whole.write(t), Precision: precision})
				for _, parts := range []int{1, 3} {
					dir := split(t, whole, parts).write(t)
					got := open(t, TextOptions{Dir: dir, Precision: precision})
					if !reflect.DeepEqual(embedAll(t, got, texts...), embedAll(t, want, texts...)) {
						t.Errorf("%s, %d files: other vectors", precision, parts)
					}
					if graph := got.Info().Graph; graph != filepath.Join(dir, indexFile) || !got.Info().Built {
						t.Errorf("graph %s", graph)
					}
				}
			}
		})
	}
}

// TestWeightsFingerprint is over the bytes of the files: those of one are as before, and neither the place nor the form of the index counts.
func TestWeightsFingerprint(t *testing.T) {
	t.Parallel()
	whole := architectureGoldens(t)[0].folder(t)
	fingerprint := func(f files) string { return open(t, TextOptions{Dir: f.write(t)}).Model().Fingerprint }
	two := split(t, whole, 2)
	index, err := json.MarshalIndent(two[indexFile], "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want := fingerprint(two)
	if got := fingerprint(two.with(indexFile, index)); got != want {
		t.Error("the form of the index counts")
	}
	other := bytes.Clone(two[partName(1, 2)].([]byte))
	other[len(other)-1] ^= 1
	seen := map[string]string{want: "two files"}
	for name, f := range map[string]files{
		"one file": whole, "three files": split(t, whole, 3), "another number in the second file": two.with(partName(1, 2), other),
	} {
		got := fingerprint(f)
		if twin, is := seen[got]; is {
			t.Errorf("%s: the fingerprint of %s", name, twin)
		}
		seen[got] = name
	}
	if fingerprint(whole.with(indexFile, []byte("{}"))) != fingerprint(whole) {
		t.Error("an index counts beside model.safetensors")
	}
}

// TestWeightsBehindLink: Hugging Face's download cache keeps files elsewhere and links to them.
func TestWeightsBehindLink(t *testing.T) {
	t.Parallel()
	dir := architectureGoldens(t)[0].folder(t).write(t)
	elsewhere := filepath.Join(t.TempDir(), "blob")
	if err := os.Rename(filepath.Join(dir, "model.safetensors"), elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "model.safetensors")); err != nil {
		t.Skip(err)
	}
	embedAll(t, open(t, TextOptions{Dir: dir}), "red", "the blue cup")
}

// TestWeightsBehindLinks: so it keeps those of several files, and theirs may lie in several folders.
func TestWeightsBehindLinks(t *testing.T) {
	t.Parallel()
	dir := split(t, architectureGoldens(t)[0].folder(t), 3).write(t)
	elsewhere := t.TempDir()
	for i, name := range []string{indexFile, partName(0, 3), partName(1, 3)} {
		to := filepath.Join(elsewhere, strings.Repeat("deep/", i), "blob")
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(filepath.Join(dir, name), to), os.Symlink(to, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	embedAll(t, open(t, TextOptions{Dir: dir}), "red", "the blue cup")
}

// TestWeightsIndexErrors: an index that lies is an error that says how.
func TestWeightsIndexErrors(t *testing.T) {
	t.Parallel()
	const first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	whole := split(t, architectureGoldens(t)[0].folder(t), 2)
	of := whole[indexFile].(files)["weight_map"].(files)
	index := func(of any) files { return whole.with(indexFile, files{"weight_map": of}) }
	var one string // a tensor of the first file
	many := files{}
	for name := range of {
		if of[name] == first {
			one = name
		}
	}
	for i := range maxFiles + 1 {
		many[fmt.Sprint(i)] = fmt.Sprint(i)
	}
	twice := bytes.Replace(mustJSON(t, files{"weight_map": of}), []byte(`{"weight_map":{`), fmt.Appendf(nil, `{"weight_map":{%q:%q,`, one, first), 1)
	scalar := safetensors(t, files{one: files{"dtype": "F32", "shape": []int{}, "data_offsets": []int{0, 4}}}, make([]byte, 4))
	tests := map[string]struct {
		folder files
		err    error
		says   string
	}{
		"a missing file":             {whole.with(second, nil), ErrModel, second},
		"a file cut short":           {whole.with(second, whole[second].([]byte)[:len(whole[second].([]byte))-1]), ErrModel, second},
		"a pointer of LFS":           {whole.with(second, []byte(lfsPointer+".github.com/spec/v1\n")), ErrModel, "git lfs pull"},
		"no safetensors":             {index(of.with(one, "config.json")), ErrModel, "not a safetensors file"},
		"a folder":                   {index(of.with(one, "1_Pooling")), ErrModel, "not a regular file"},
		"the folder itself":          {index(of.with(one, ".")), ErrModel, "not a regular file"},
		"a file outside":             {index(of.with(one, "../model.safetensors")), ErrModel, `"../model.safetensors" is not inside`},
		"an absolute path":           {index(of.with(one, "/etc/passwd")), ErrModel, `"/etc/passwd" is not inside`},
		"outside in the end":         {index(of.with(one, "1_Pooling/../../a")), ErrModel, "is not inside"},
		"no name":                    {index(of.with(one, "")), ErrModel, `"" is not inside`},
		"a tensor in two files":      {whole.with("a.safetensors", scalar).with(indexFile, files{"weight_map": of.with(one, "a.safetensors")}), ErrModel, "is in "},
		"a tensor in another file":   {index(of.with(one, second)), ErrModel, "is not in"},
		"a tensor in none":           {index(of.with("more", first)), ErrModel, `"more" is not in`},
		"a tensor named twice":       {whole.with(indexFile, twice), ErrModel, "comes twice"},
		"a tensor that is not there": {whole.with(first, safetensors(t, files{}, nil)), ErrModel, "is not in"},
		"no weight_map":              {whole.with(indexFile, []byte("{}")), ErrModel, "names 0 files"},
		"an empty weight_map":        {index(files{}), ErrModel, "names 0 files"},
		"no map":                     {index([]any{}), ErrModel, "no JSON object"},
		"numbers for files":          {index(files{one: 1}), ErrModel, "cannot unmarshal"},
		"no JSON":                    {whole.with(indexFile, []byte(`{"weight_map"`)), ErrModel, indexFile},
		"a huge index":               {whole.with(indexFile, make([]byte, maxConfig+1)), ErrModel, "longer than"},
		"many files":                 {index(many), ErrModel, "names 10001 files"},
		"int8, and a missing file":   {whole.with(second, nil), ErrModel, second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := TextOptions{Dir: test.folder.write(t)}
			if strings.HasPrefix(name, "int8") {
				o.Precision = Int8
			}
			_, err := NewText(t.Context(), o)
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v that says %q", err, test.err, test.says)
			}
		})
	}
	t.Run("one file by two names", func(t *testing.T) {
		embedAll(t, open(t, TextOptions{Dir: index(of.with(one, "./"+first)).write(t)}), "red")
	})
	t.Run("headers that are too much together", func(t *testing.T) {
		dir := whole.write(t)
		w := weights{tensors: map[string]tensor{}}
		left, err := w.add(filepath.Join(dir, first), 1<<20)
		if err != nil || left >= 1<<20 {
			t.Fatalf("%d left, error %v", left, err)
		}
		if _, err := w.add(filepath.Join(dir, second), 100); !errors.Is(err, errNotSafetensors) || !strings.Contains(err.Error(), "where 100 are allowed") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a weight of another type", func(t *testing.T) {
		f := architectureGoldens(t)[0].folder(t)
		b := bytes.ReplaceAll(f["model.safetensors"].([]byte), []byte(`"F32"`), []byte(`"I32"`))
		_, err := NewText(t.Context(), TextOptions{Dir: f.with("model.safetensors", b).write(t)})
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `"I32"; known are BF16, F16, F32`) {
			t.Errorf("error %v", err)
		}
	})
}

func mustJSON(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestSafetensors(t *testing.T) {
	t.Parallel()
	file := func(header string, data int) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), make([]byte, data)...)
	}
	tests := map[string]struct {
		file []byte
		says string // "": no error
	}{
		"whole":               {file(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"format":"pt"}}`, 24), ""},
		"a scalar":            {file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), ""},
		"another type":        {file(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, 8), ""},
		"empty":               {nil, "cut short"},
		"header beyond file":  {[]byte("\xff\xff\xff\xff\xff\xff\xff\x7f{}"), "header of"},
		"header is no object": {file(`[1]`, 0), "no JSON object"},
		"header too long":     {file(`{"a":`+strings.Repeat(" ", 500)+`{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), "where 500 are allowed"},
		"a name twice":        {file(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4), `"a" comes twice`},
		"beyond the file":     {file(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}`, 23), "bytes 0 to 24 of 23"},
		"backwards":           {file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[8,4]}}`, 24), "bytes 8 to 4"},
		"before the data":     {file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}`, 24), "bytes -8 to 0"},
		"shape and size":      {file(`{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,24]}}`, 24), "shape [2 3] of F16 in 24 bytes"},
		"shape that overflows": {
			file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "shape [4294967296",
		},
		"negative shape": {file(`{"a":{"dtype":"F32","shape":[-2,-3],"data_offsets":[0,24]}}`, 24), "shape [-2 -3]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := readTable(bytes.NewReader(test.file), int64(len(test.file)), 500)
			if (err == nil) != (test.says == "") || err != nil && (!errors.Is(err, errNotSafetensors) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add([]byte("\x3e\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}     ` + strings.Repeat("x", 24)))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, _, err := readTable(bytes.NewReader(file), int64(len(file)), maxHeader)
		if err != nil {
			return
		}
		for name, x := range tensors {
			if x.from < 8 || x.size < 0 || x.from+x.size > int64(len(file)) {
				t.Errorf("%q lies at %d to %d of %d", name, x.from, x.from+x.size, len(file))
			}
			decodeFloats(nil, file[x.from:x.from+x.size], x.elem)
		}
	})
}

// FuzzWeightsIndex: what an index says is an error or true.
func FuzzWeightsIndex(f *testing.F) {
	dir, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		file := safetensors(f, files{"tensor " + name: files{"dtype": "F32", "shape": []int{}, "data_offsets": []int{0, 4}}}, make([]byte, 4))
		if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"tensor a":"a","tensor b":"b"}}`))
	f.Add([]byte(`{"weight_map":{"tensor a":"b/../a","tensor a":"../b"}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(dir, indexFile)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := readWeights(path)
		if err != nil {
			if !errors.Is(err, ErrModel) {
				t.Errorf("error %v", err)
			}
			return
		}
		for name, x := range w.tensors {
			if x.file != filepath.Join(dir, strings.TrimPrefix(name, "tensor ")) || x.size != 4 || !slices.Contains(w.files, x.file) {
				t.Errorf("%q is %+v", name, x)
			}
		}
	})
}

func TestHalfFloats(t *testing.T) {
	t.Parallel()
	for h, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 0x1p-24, 0x03ff: 0x3ffp-24, 0x0400: 0x1p-14, 0x3555: 0.333251953125, 0x7c00: math.Inf(1),
	} {
		if got := halfFloat(h); float64(got) != want {
			t.Errorf("%#04x: %v, want %v", h, got, want)
		}
	}
	if x := halfFloat(0x7e00); x == x {
		t.Errorf("not a number became %v", x)
	}
	if got := decodeFloats(nil, []byte{0x80, 0x3f, 0x00, 0xc0}, elemBFloat16); got[0] != 1 || got[1] != -2 {
		t.Errorf("bfloat16: %v", got)
	}
}
