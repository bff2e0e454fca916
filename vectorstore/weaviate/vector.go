package weaviate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// namedVector is what the Store knows of a vector of the collection.
type namedVector struct {
	distance Distance
	multi    bool
}

// multiHeader are the bytes before the vectors of a multi-vector, one after the other: the length of each of them.
const multiHeader = 2

func singleMessage(name string, v []float32) *pb.Vectors {
	return &pb.Vectors{Name: name, VectorBytes: encodeVector(v), Type: pb.Vectors_VECTOR_TYPE_SINGLE_FP32}
}

// multiMessage brings the vectors to length 1: the server compares those of a multi-vector by their products in the end, also where
// its distance is cosine (seen with v1.39).
func multiMessage(name string, vectors [][]float32) *pb.Vectors {
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(vectors[0])))
	for _, v := range vectors {
		b = append(b, encodeVector(normalized(v))...)
	}
	return &pb.Vectors{Name: name, VectorBytes: b, Type: pb.Vectors_VECTOR_TYPE_MULTI_FP32}
}

func decodeMulti(b []byte) ([][]float32, error) {
	if len(b) < multiHeader {
		return nil, errors.New("the server sent a multi-vector without a length")
	}
	size := 4 * int(binary.LittleEndian.Uint16(b))
	if b = b[multiHeader:]; size == 0 || len(b)%size != 0 {
		return nil, errors.New("the server sent a multi-vector that is cut off")
	}
	out := make([][]float32, 0, len(b)/size)
	for v := range slices.Chunk(b, size) {
		out = append(out, decodeVector(v))
	}
	return out, nil
}

func normalized(v []float32) []float32 {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	out, length := make([]float32, len(v)), math.Sqrt(squares)
	for i, x := range v {
		out[i] = float32(float64(x) / length)
	}
	return out
}

// lengthOf returns the length of a vector, or of each of a multi-vector.
func lengthOf(v *pb.Vectors) int {
	b := v.GetVectorBytes()
	if v.GetType() == pb.Vectors_VECTOR_TYPE_MULTI_FP32 && len(b) > multiHeader {
		return int(binary.LittleEndian.Uint16(b))
	}
	return len(b) / 4
}

// takeVectors puts vectors that the server sent into an object.
func takeVectors(o *vectorstore.Object, vectors []*pb.Vectors) error {
	for _, v := range vectors {
		if v.GetType() != pb.Vectors_VECTOR_TYPE_MULTI_FP32 {
			o.Vectors[v.GetName()] = decodeVector(v.GetVectorBytes())
			continue
		}
		multi, err := decodeMulti(v.GetVectorBytes())
		if err != nil {
			return fmt.Errorf("vector %q: %w", v.GetName(), err)
		}
		o.MultiVectors = set(o.MultiVectors, v.GetName(), multi)
	}
	return nil
}

func set[V any](m map[string]V, name string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[name] = v
	return m
}

// takeJSON puts a vector of either kind into an object.
func takeJSON(o *vectorstore.Object, name string, text json.RawMessage) error {
	if single, err := unmarshal[[]float32](text); err == nil {
		o.Vectors[name] = single
		return nil
	}
	multi, err := unmarshal[[][]float32](text)
	o.MultiVectors = set(o.MultiVectors, name, multi)
	return err
}

// encodeVectors checks an object's vectors against known lengths, to which those of new names are added: within a call, the first
// one decides. A name that clears has nil.
func (s *Store) encodeVectors(o *vectorstore.Object, lengths map[string]int) (map[string]*pb.Vectors, error) {
	out := make(map[string]*pb.Vectors, len(o.Vectors)+len(o.MultiVectors))
	for name, v := range o.Vectors {
		if known, there := s.schema.Load().vectors[name]; len(v) == 0 && there && !known.multi {
			out[name] = nil
			continue
		}
		var err error
		if out[name], err = s.encodeTarget(vectorstore.Target{Vector: name, Near: v}, lengths[name]); err != nil {
			return nil, err
		}
	}
	for name, v := range o.MultiVectors {
		if len(v) == 0 && s.schema.Load().vectors[name].multi {
			out[name] = nil
			continue
		}
		var err error
		if out[name], err = s.encodeTarget(vectorstore.Target{Vector: name, NearMulti: v}, lengths[name]); err != nil {
			return nil, err
		}
	}
	for name, v := range out {
		if lengths[name] == 0 && v != nil {
			lengths[name] = lengthOf(v)
		}
	}
	return out, nil
}

func vectorError(format string, args ...any) error {
	return vectorstore.Permanent(fmt.Errorf("%w: %s", vectorstore.ErrVector, fmt.Sprintf(format, args...)))
}

// checkShape checks a vector to store or to look around: only with cosine must a single one have a direction.
func (s *Store) checkShape(t vectorstore.Target, dims int) error {
	known, ok := s.schema.Load().vectors[t.Vector]
	if !ok {
		return vectorError("collection %s has no vector %.64q", s.collection, t.Vector)
	}
	zero := !slices.ContainsFunc(t.Near, func(x float32) bool { return x != 0 })
	if !known.multi && known.distance != Cosine && zero && len(t.Near) > 0 && (dims == 0 || len(t.Near) == dims) {
		return nil
	}
	if err := (vectorstore.Shape{Dimensions: dims, Multi: known.multi}).Check(t); err != nil {
		return err
	}
	if known.multi && len(t.NearMulti[0]) > math.MaxUint16 {
		return vectorError("vector %q: Weaviate's multi-vectors have at most %d components, not %d", t.Vector, math.MaxUint16, len(t.NearMulti[0]))
	}
	return nil
}

// encodeTarget checks and encodes what is stored or a query looks near.
func (s *Store) encodeTarget(t vectorstore.Target, dims int) (*pb.Vectors, error) {
	if err := s.checkShape(t, dims); err != nil {
		return nil, err
	}
	if len(t.NearMulti) > 0 {
		return multiMessage(t.Vector, t.NearMulti), nil
	}
	return singleMessage(t.Vector, t.Near), nil
}
