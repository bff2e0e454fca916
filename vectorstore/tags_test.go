package vectorstore_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

type brand struct {
	Brand string `store:",vector=text_vector"`
}

type article struct {
	ID int64 `cdc:"id,key" store:"product_id"`
	brand
	Title     string  `store:"title,vector=text_vector"`
	Body      *string `store:"-,vector=text_vector"`
	Picture   []byte  `store:"-,vector=image_vector"`
	UnitPrice float64 `store:""`
	HTTPCode  int     `store:","`
	Internal  string
}

func TestMappingOf(t *testing.T) {
	t.Parallel()
	texts, pictures := embedtest.New(8), embedtest.NewImages(4)
	m, err := vectorstore.MappingOf[article](vectorstore.Models{
		Texts:  map[string]embed.Embedder[string]{textVector: texts},
		Images: map[string]embed.Embedder[embed.Image]{imageVector: pictures},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	sink, err := vectorstore.NewSink(store, m, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body := "long"
	a := article{ID: 1, Title: "one", Body: &body, Picture: []byte("png"), UnitPrice: 2.5, HTTPCode: 7, Internal: "x"}
	a.Brand = "ACME"
	event := cdc.Event[article]{Op: cdc.OpCreate, Key: keyOf(1), After: &a, Source: cdc.Source{LSN: 1}}
	if err := sink.Handle(t.Context(), []cdc.Event[article]{event}); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), []vectorstore.Ref{refOf(t, 1)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"product_id": int64(1), "brand": "ACME", "title": "one", "unit_price": 2.5, "http_code": int64(7)}
	if !reflect.DeepEqual(got[0].Properties, want) {
		t.Errorf("properties are %v, want %v", got[0].Properties, want)
	}
	if in := texts.Inputs(); len(in) != 1 || in[0] != "ACME\none\nlong" || !near(got[0].Vectors[imageVector], freshPicture(t, 4, a.Picture)) {
		t.Errorf("embedded %q, vectors %v", in, got[0].Vectors)
	}
	a.Body, a.Title, event.Source.LSN = nil, " ", 2
	if err := sink.Handle(t.Context(), []cdc.Event[article]{event}); err != nil {
		t.Fatal(err)
	}
	if in := texts.Inputs(); len(in) != 2 || in[1] != "ACME" {
		t.Errorf("embedded %q", in)
	}
}

func TestMappingOfErrors(t *testing.T) {
	t.Parallel()
	models := vectorstore.Models{
		Texts:  map[string]embed.Embedder[string]{"text": embedtest.New(4)},
		Images: map[string]embed.Embedder[embed.Image]{"image": embedtest.NewImages(4)},
	}
	_, err := vectorstore.MappingOf[struct {
		A string  `store:"a,vector=other"`
		B int     `store:"b,vector=text"`
		C string  `store:"c,vector=image"`
		D string  `store:"d,index"`
		E float64 `store:"a"`
		f string  `store:"f"`
	}](models)
	for _, want := range []string{
		`field A of `, `"other" has no model`, `embeds text, the field is int`, `embeds pictures, the field is string`, `want a name, and vector=NAME`,
		`property "a" has two fields`, `is not exported`, `no field is the input of vector "text"`, `no field is the input of vector "image"`,
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	if _, err := vectorstore.MappingOf[int](models); err == nil {
		t.Error("no error for a type that is no struct")
	}
}
