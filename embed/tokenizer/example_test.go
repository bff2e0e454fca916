package tokenizer_test

import (
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

func ExampleTokenizer_Encode() {
	t, err := tokenizer.Load("testdata/minilm/tokenizer.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	const text = "Embeddings for the café"
	enc, err := t.Encode(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, id := range enc.IDs {
		fmt.Printf("%d %q\n", id, text[enc.Offsets[i][0]:enc.Offsets[i][1]])
	}
	// Output:
	// 101 ""
	// 7861 "Em"
	// 8270 "bed"
	// 4667 "ding"
	// 2015 "s"
	// 2005 "for"
	// 1996 "the"
	// 7668 "café"
	// 102 ""
}

func ExampleTokenizer_AppendEncode() {
	t, err := tokenizer.Load("testdata/minilm/tokenizer.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	var batch tokenizer.Encoding // of texts one behind the other, each with at most 4 tokens
	for _, text := range []string{"a cup of tea", "hello"} {
		if batch, err = t.AppendEncode(batch, text, 4); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(batch.IDs)
	// Output:
	// [101 1037 2452 102 101 7592 102]
}

func ExampleParse() {
	_, err := tokenizer.Parse([]byte(`{"pre_tokenizer": {"type": "Morphemes"}, "model": {"type": "Oracle"}}`))
	fmt.Println(errors.Is(err, tokenizer.ErrUnsupported))
	fmt.Println(err)
	// Output:
	// true
	// tokenizer: unsupported: pre_tokenizer: type "Morphemes"
	// tokenizer: unsupported: model: type "Oracle"
}
