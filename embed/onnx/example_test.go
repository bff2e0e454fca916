//go:build cgo

package onnx_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/embed/onnx"
)

func Example() {
	ctx := context.Background()
	// Without options: all-MiniLM-L6-v2, downloaded on first use.
	model, err := onnx.NewText(ctx, onnx.TextOptions{Progress: os.Stderr})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := model.Close(); err != nil {
			fmt.Println(err)
		}
	}()

	texts := []string{"A red cotton shirt with wide pockets", "Crimson blouse made of cotton", "Wireless headphones, 40 h battery"}
	vectors, err := model.Embed(ctx, texts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(model.Model().Name, "makes", len(vectors[0]), "numbers of a text")
	for i := 1; i < len(texts); i++ {
		fmt.Printf("%.2f  %s\n", dot(vectors[0], vectors[i]), texts[i])
	}
	// Output:
	// all-MiniLM-L6-v2 makes 384 numbers of a text
	// 0.55  Crimson blouse made of cotton
	// 0.03  Wireless headphones, 40 h battery
}

// dot is the cosine, since the vectors have length 1.
func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// A folder of one's own is read as sentence-transformers saved it; what it lacks is named.
func ExampleNewText() {
	_, err := onnx.NewText(context.Background(), onnx.TextOptions{Dir: "testdata"})
	fmt.Println(errors.Is(err, onnx.ErrModel))
	// Output: true
}

// Vectors cut to 128 components, for a model that was trained for it, and 8-bit weights; the fingerprint tells such vectors from others.
func ExampleTextOptions() {
	ctx := context.Background()
	whole, err := onnx.NewText(ctx, onnx.TextOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer whole.Close()
	small, err := onnx.NewText(ctx, onnx.TextOptions{Dimensions: 128, Precision: onnx.Int8, LongTexts: onnx.AverageLong})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer small.Close()
	fmt.Println(small.Model().Dimensions, "of", whole.Model().Dimensions)
	fmt.Println("comparable:", small.Model().Fingerprint == whole.Model().Fingerprint)
	// Output:
	// 128 of 384
	// comparable: false
}
