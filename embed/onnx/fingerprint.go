package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path/filepath"
)

// fingerprint changes with the graph of an ONNX file, its weights and the tokenizer.
func fingerprint(f folder, g graph, s signature) (string, error) {
	h := sha256.New()
	h.Write(fmt.Appendf(nil, "graph %s\noutput %s\n", g.sha256, s.output))
	files := []string{f.tokenizer}
	for _, name := range g.external {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return "", fmt.Errorf("%s: external weights %q are not inside the folder", f.graph, name)
		}
		files = append(files, filepath.Join(filepath.Dir(f.graph), filepath.FromSlash(name)))
	}
	return hashFiles(h, files)
}

// fingerprintBuilt changes with the bytes of the weights' files that a graph is built from, in the order of their names, what config.json
// says of them, the precision and the tokenizer, and not with the way in which graphs are written: it stands beside stored vectors.
func fingerprintBuilt(f folder, c encoderConfig, w weights, p Precision) (string, error) {
	precision := p.String()
	if p == Int8 {
		precision += " 2" // the way of rounding: raise it with each change that moves vectors
	}
	h := sha256.New()
	h.Write(fmt.Appendf(nil, "built %s size %d layers %d heads %d activation %s epsilon %g buckets %d padding %d precision %s\n",
		c.ModelType, c.HiddenSize, c.Layers, c.Heads, c.Activation, c.Epsilon, c.Buckets, f.padID, precision))
	return hashFiles(h, append([]string{f.tokenizer}, w.files...))
}

func hashFiles(h hash.Hash, paths []string) (string, error) {
	for _, path := range paths {
		if err := hashFile(h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(to io.Writer, path string) error {
	file, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	if _, err := fmt.Fprintf(to, "file %d\n", size); err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return err
}
