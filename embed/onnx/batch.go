package onnx

// batch is one call of Embed; its slices are aligned with the texts.
type batch struct {
	parts []parts
	errs  []error
}

// part is the pooled vector of a part of a text, which mostly is all of it.
type part struct {
	vector []float32
	tokens int
}

type parts []part

// mean is the mean of the parts' vectors, weighted by their tokens.
func (p parts) mean() []float32 {
	if len(p) == 1 {
		return p[0].vector
	}
	m := newMean(len(p[0].vector))
	for _, one := range p {
		m.add(one.vector, float64(one.tokens))
	}
	vector := make([]float32, len(p[0].vector))
	m.divide(vector)
	return vector
}
